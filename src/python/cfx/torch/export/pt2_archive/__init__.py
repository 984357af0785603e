"""torch.export.pt2_archive: archives of several programs and other files."""
from ._package import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package

__all__ = ["PT2ArchiveWriter", "PT2ArchiveReader", "is_pt2_package"]
