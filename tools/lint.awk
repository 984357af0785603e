# The checks of tools/lint on C files, line by line. `code` is the line without comments, strings
# and character constants.

function report(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
}

# Ends the file before: its length is known now.
function close_file() {
    if (file == "")
        return
    if (lines > limit) {
        printf "%s:%d: %d lines; %d are the limit: split it by family\n", file, lines, lines, limit
        bad = 1
    }
}

function open_file(    part) {
    file = FILENAME
    in_comment = 0
    covered = 0
    prototype = ""
    limit = file ~ /^include\// ? 450 : 600
    split(file, part, "/")
    room = part[1] == "src" && part[3] != "" ? part[2] : ""
    family = room == "ops" && part[4] != "" ? part[3] : ""
    is_test = file ~ /_test\.c$/
    is_public = file ~ /^include\//
    if (room != "" && !(room in rank))
        report("there is no room " room)
}

# The line without what is quoted or commented.
function strip(s,    i) {
    gsub(/"([^"\\]|\\.)*"/, "\"\"", s)
    gsub(/'([^'\\]|\\.)+'/, "0", s)
    if (in_comment) {
        i = index(s, "*/")
        if (!i)
            return ""
        s = substr(s, i + 2)
        in_comment = 0
    }
    while ((i = index(s, "/*")) > 0) {
        rest = substr(s, i + 2)
        s = substr(s, 1, i - 1)
        i = index(rest, "*/")
        if (!i) {
            in_comment = 1
            break
        }
        s = s " " substr(rest, i + 2)
    }
    sub(/\/\/.*/, "", s)
    return s
}

# Whether a declaration that starts with static is of something that can change.
function mutable(s) {
    sub(/[={;].*/, "", s)
    if (s ~ /\(/ || s ~ /^[ \t]*static[ \t]+(inline|_Noreturn)/ || s ~ /,$/)
        return 0
    if (s ~ /\*/)
        return s !~ /\*[ \t]*(restrict[ \t]+)?const[^*]*$/
    return s !~ /(^|[ \t])const([ \t]|$)/
}

# Lists of operators: what operators have in common is a column of their rows. `text` is the
# statement so far, with its strings.
function check_list(text,    n, i, part, known, all) {
    n = text
    if (gsub(/== *&cfx_op_/, "", n) > 4)
        return 1
    n = text
    if (gsub(/cfx(__call|_node)_is\(/, "", n) > 4)
        return 1
    if (text ~ /\] = "/) # by an enum: names of its own
        return 0
    if (text !~ /char *\*? *const *[a-z_]+\[[^]]*\](\[[^]]*\])? *=/ && text !~ /cfx_op \*const [a-z_]+\[\] *=/)
        return 0
    n = text
    if (gsub(/&cfx_op_[a-z]/, "", n) > 3)
        return 1
    n = split(text, part, "\"")
    for (i = 2; i < n; i += 2) {
        all++
        sub(/^(aten|torch|Tensor|operator)[.:]+/, "", part[i])
        sub(/[.][A-Za-z_]+$/, "", part[i])
        known += part[i] in operators
    }
    return known > 3 && known * 4 > all * 3
}

BEGIN {
    n = split(names, part, " ")
    for (i = 1; i <= n; i++)
        operators[part[i]] = 1
    n = split(order, rooms, " ")
    for (i = 1; i <= n; i++)
        rank[rooms[i]] = i
    stateful["src/base/context.c"] = 1
    stateful["src/base/memory.c"] = 1 # what all threads hold together
    stateful["src/base/pool.c"] = 1 # the threads themselves
    stateful["src/mpi/guard.c"] = 1 # there is one MPI in a process
    stateful["src/mpi/windows.c"] = 1
    stateful["src/mpi/witness.c"] = 1
    stateful["src/ops/libraries.c"] = 1 # the libraries that are open
    stateful["src/cuda/driver.c"] = 1 # the same, for cards
    stateful["src/cuda/device.c"] = 1 # the cards of the process, under a lock
    stateful["src/cuda/weights.c"] = 1 # what plans share there, under a lock
    stateful["src/cuda/tensor.c"] = 1 # memory of a card that is free, under a lock
    stateful["src/cuda/single.c"] = 1 # plans of single operators, under a lock
    stateful["src/cuda/optim.c"] = 1 # kernels of optimisers, under a lock
    stateful["src/base/machine.c"] = 1 # what was found out about the machine
    stateful["src/base/cores.c"] = 1 # the same
    stateful["src/value/tree_type.c"] = 1 # the types of the user's, under a lock
    stateful["src/dispatch/registry.c"] = 1 # the operators of the user's, under a lock
    stateful["src/group/group.c"] = 1 # which group a thread has
    stateful["src/mpi/mpi.c"] = 1 # the MPI of the process; the library knows no context
    stateful["src/python/module.c"] = 1 # what the interpreter and its threads have
    listed["src/run/verifier.c"] = 1 # PyTorch's own list of Core ATen
    listed["src/rewrite/unflatten.c"] = 1 # the nodes that PyTorch duplicates
    listed["src/quant/prepare.c"] = 1 # the nodes that PyTorch treats as sizes
    listed["src/trace/record.c"] = 1 # their Python names
    listed["src/trace/view_steps.c"] = 1 # the inverse of each view
    listed["src/trace/checks.c"] = 1 # the relation that each check asserts
    listed["src/rewrite/rerun.c"] = 1 # Python's relations
    listed["src/onnx/rules_math.c"] = 1 # the operators that ONNX has
    listed["src/onnx/rules_complex.c"] = 1 # rules that hold for pairs of floats
    listed["src/compile/expr_words.h"] = 1 # functions of C
    opens["src/tensor/file.c"] = 1 # the one place: cfx__file_map, cfx__file_open, cfx__file_save_open
    opens["src/base/cores.c"] = 1 # what the system tells of itself
    opens["src/mpi/guard.c"] = 1 # /proc
    opens["src/mpi/witness.c"] = 1 # /dev/null, by posix_spawn
    opens["src/cli/stream.c"] = 1 # a temporary file for what comes from stdin
    member = "(\\.|->)(b|i|f|device|str|cplx|slice|tensor|list|dict|sym|node|module|object|op|keyword|obj)_" \
             "([^A-Za-z0-9_]|$)"
    banned = "(^|[^A-Za-z0-9_.>])(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|abort|exit|" \
             "printf|puts|system|popen|longjmp|setjmp|CMPLX)[ \t]*\\("
    opener = "(^|[^A-Za-z0-9_.>])(fopen|freopen|fdopen|tmpfile|mkstemp|mkostemp|creat|openat)[ \t]*\\("
    cut = "\\(u?int(8_t|16_t|32_t|64_t)?\\) ?\\(?cfx_(tensor_get|number)\\(|-0x1p63|[^0-9]9(\\.[0-9]*)?e18"
    heap = "(^|[^A-Za-z0-9_.>*])(malloc|calloc|realloc|free|strdup|strndup|posix_memalign)[ \t]*\\("
}

FNR == 1 {
    close_file()
    open_file()
    if (!is_test && !/^(\/\*|\/\/)/)
        report("a file starts with a comment that says what it is")
}

{
    lines = FNR
    wide = $0
    gsub(/[\200-\277]/, "", wide)
    if (length(wide) > 100)
        report(length(wide) " columns; 100 are the limit")
    if (/\t/)
        report("a tab; indent with 4 spaces")
    if (/[ \t]$/)
        report("blanks at the end of the line")

    commented = in_comment || /\/\*|\/\//
    code = strip($0)

    # From a family of ops, ../x/ is a sibling and ../../x/ a room.
    if (family != "" && /^#include "\.\.\/[a-z]+\//)
        report("a family of ops sees its own folder and the headers of src/ops alone")
    if (room != "" && match($0, family == "" ? "^#include \"\\.\\./[a-z]+/" \
                                             : "^#include \"\\.\\./\\.\\./[a-z]+/")) {
        other = substr($0, 1, RLENGTH - 1)
        sub(/.*\//, "", other)
        if (!(other in rank) || rank[other] > rank[room])
            report("room " room " must not see room " other)
    }
    if (room != "" && room !~ /^(ops|cli|python)$/ && !is_test) {
        statement = statement $0
        if (code ~ /[;}][ \t]*$/ || code ~ /^[ \t]*$/) {
            if (!(file in listed) && check_list(statement))
                report("a list of operators: what they have in common is a column of their rows")
            statement = ""
        }
    }
    if (code ~ /strn?cmp\(cfx_node_higher_order\(/)
        report("cfx_node_higher_order() is NULL for most nodes: see cfx__higher_is")
    if (family == "onnx" && code ~ /->shape\[[0-9]/)
        report("a tensor of a file may have any number of dimensions: see onnx_size")
    if (code ~ /\[CFX_DTYPE_COUNT\]/)
        report("a table over dtypes has CFX_DTYPE_END places: tensors may be quantized")
    if (room != "value" && file !~ /^include\/cfx\/value(_as)?\.h$/ && match(code, member))
        report("a bare member of cfx_value: " substr(code, RSTART, RLENGTH) "; see cfx/value_as.h")
    if (room != "" && room != "cli" && !is_test) {
        if (match(code, banned))
            report("banned function: " substr(code, RSTART, RLENGTH))
        if (file != "src/base/memory.c" && room != "mpi" && match(code, heap))
            report("memory comes from src/base/memory.c: " substr(code, RSTART, RLENGTH))
        # Tables that Python wants to be given without const.
        table = code ~ /^static Py(MethodDef|GetSetDef|MemberDef|Type_Slot|Type_Spec) /
        if (code ~ /^[ \t]*(static|_Thread_local)[ \t]/ && !(file in stateful) && !table && mutable(code))
            report("state that can change belongs in the context (src/base/context.c)")
    }
    # open() itself needs <fcntl.h>; a path that begins with "/proc is not the caller's.
    if (room != "" && !is_test && file !~ /_test\.h$/ && !(file in opens) && $0 !~ /open\("\/(proc|etc)\// &&
        (match(code, opener) || code ~ /^#include <fcntl\.h>/))
        report("files are opened in src/tensor/file.c: see cfx__file_open and cfx__file_save_open")
    if (room == "cli" && file != "src/cli/output.c" && match(code, /(^|[^A-Za-z0-9_])v?f?printf[ \t]*\(/))
        report("the command prints by cli_print and cli_say, for which a name is part of a line")
    if (room != "" && !is_test && file != "src/base/base.h" && match(code, cut))
        report("floats become integers by cfx__int64_of: " substr(code, RSTART, RLENGTH))
    if (match($0, /__builtin_cpu_supports\("(f16c|amx|avx512fp16|avxvnni)/))
        report("the clang of Debian 12, which builds for sanitizers, knows no such feature")
    if (is_public) {
        if ($0 ~ /^[ \t]*$/)
            covered = 0
        else if (commented)
            covered = 1
        if (code ~ /^CFX_API/) {
            prototype = "open"
            prototype_line = FNR
        }
        if (prototype != "" && code ~ /;/) {
            if (!covered) {
                printf "%s:%d: a public prototype without a comment\n", FILENAME, prototype_line
                bad = 1
            }
            prototype = ""
        }
    }
}

END {
    close_file()
    exit bad
}
