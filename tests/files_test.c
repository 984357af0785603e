/* Files under trouble: pipes and devices, rights, full disks, processes that are killed while they
 * save. The file there was, or the new one, is whole at every moment. */
#include "../src/tensor/tensor.h"
#include "files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZOO CFX_TEST_DATA "/zoo/"

TEST(a_pipe_that_nobody_serves_is_an_error) {
    CHECK_INT(mkfifo(test_path("pipe.pt2"), 0600), 0);
    cfx_open(test_path("pipe.pt2"));
    CHECK_ERROR("not a regular file");
    CHECK_INT(mkfifo(test_path("pipe"), 0600), 0); /* whose name does not tell what is in it */
    cfx_open(test_path("pipe"));
    CHECK_ERROR("not a regular file");
    cfx_open("/dev/zero");
    CHECK_ERROR("cannot read '/dev/zero': not a regular file");
    cfx_npy_write(test_path("pipe.pt2"), cfx_ones(3));
    CHECK_ERROR("cannot write");
    CHECK_INT(test_folder_clear(), 2);
}

/* A link stays a link, also where it leads to nothing yet, or to itself. */
TEST(links_are_followed_to_where_nothing_is_yet) {
    struct stat st;
    CHECK(symlink("new.npy", test_path("early.npy")) == 0);
    CHECK(symlink("early.npy", test_path("earlier.npy")) == 0);
    CHECK(cfx_npy_write(test_path("earlier.npy"), cfx_zeros(5)));
    CHECK(lstat(test_path("early.npy"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(test_path("earlier.npy"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(test_path("new.npy"), &st) == 0 && S_ISREG(st.st_mode));
    CHECK(symlink("round.npy", test_path("round.npy")) == 0);
    CHECK(!cfx_npy_write(test_path("round.npy"), cfx_zeros(5)));
    CHECK(strstr(cfx_error_last()->message, "Too many levels of symbolic links") != NULL);
    cfx_error_clear();
    CHECK_INT(test_folder_clear(), 4);
}

TEST(a_file_that_is_replaced_keeps_its_rights_and_leaves_nothing_beside) {
    const char *path = test_path("t.npy");
    struct stat st;
    CHECK(cfx_npy_write(path, cfx_ones(3)));
    chmod(path, 0640);
    CHECK(symlink("t.npy", test_path("link.npy")) == 0);
    CHECK(cfx_npy_write(test_path("link.npy"), cfx_zeros(5)));
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);
    CHECK(lstat(test_path("link.npy"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK_INT(cfx_npy_read(path)->numel, 5);
    /* what a killed process left is swept away; what is being written is not */
    FILE *left = fopen(test_path(".t.npy.12-3-4.cfx"), "w"), *other = fopen(test_path(".t.x"), "w");
    cfx__file_save s;
    CHECK(left && other && fclose(left) == 0 && fclose(other) == 0);
    CHECK(cfx__file_save_open(&s, path));
    CHECK(cfx_npy_write(path, cfx_ones(2)));
    CHECK(access(test_path(".t.npy.12-3-4.cfx"), F_OK) != 0);
    CHECK(access(test_path(".t.x"), F_OK) == 0);
    CHECK(fputs("whole", s.file) >= 0 && cfx__file_save_close(&s, true));
    CHECK(stat(path, &st) == 0 && st.st_size == 5);
    CHECK_INT(test_folder_clear(), 3);
}

/* The name of the file that the tensors of t.fx are read from; scope. */
static const char *tensors_of_text(void) {
    char *path = cfx__file_pending(test_path("t.fx"), test_path("t.safetensors"));
    const char *name = cfx__text_format("%s", strrchr(path, '/') + 1);
    cfx__free(path);
    return name;
}

TEST(tensors_are_taken_from_what_a_save_left_and_from_nothing_like_it) {
    const char *plain = test_path("t.safetensors"), *other = test_path("other");
    const char *left = test_path(".t.safetensors.12-3-4.cfx");
    CHECK(cfx__file_write(test_path("t.fx"), "", 0) && cfx__file_write(plain, "", 0));
    CHECK(cfx__file_write(other, "", 0) && symlink("other", left) == 0);
    CHECK_STR(tensors_of_text(), "t.safetensors"); /* a link is none */
    CHECK(rename(other, left) == 0);
    CHECK_STR(tensors_of_text(), ".t.safetensors.12-3-4.cfx");
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    CHECK(utimensat(AT_FDCWD, left, old, 0) == 0);
    CHECK_STR(tensors_of_text(), "t.safetensors"); /* it was written since */
    CHECK(utimensat(AT_FDCWD, plain, old, 0) == 0);
    CHECK_STR(tensors_of_text(), ".t.safetensors.12-3-4.cfx");
    if (geteuid() == 0) {
        CHECK(chown(left, 12345, 12345) == 0);
        CHECK_STR(tensors_of_text(), "t.safetensors"); /* that is somebody else's */
    }
    CHECK_INT(test_folder_clear(), 3);
}

TEST(a_file_is_copied_on_request) {
    const char *path = test_path("t.npy");
    CHECK(cfx_npy_write(path, cfx_ones(3000)));
    cfx_set_copy_files(true);
    cfx_tensor *t = cfx_npy_read(path);
    CHECK(truncate(path, 10) == 0);
    CHECK_NEAR(cfx_tensor_get(t, 2999), 1, 0); /* mapped, this would end the process */
    cfx_npy_read(path);
    CHECK(!cfx_ok());
    cfx_error_clear();
    cfx_set_copy_files(false);
    test_folder_clear();
}

/* ---- writers --------------------------------------------------------------------------------- */

/* What a writer writes: one of two, so that files tell which they have. */
typedef struct written {
    cfx_program *program;
    cfx_value value;
} written;

static cfx_program *model(bool other) {
    cfx_program *p = cfx_open(ZOO "seed_mlp/model.pt2");
    if (other)
        cfx_fill_(cfx_program_tensor(p, &p->inputs[0]), 7);
    return p;
}

static cfx_tensor *tensor(bool other) { return cfx_full(cfx_list(40, 40), other ? 7 : 1); }

static written a_program(bool other) { return (written){.program = model(other)}; }

static written another_program(bool other) { /* drawings and texts show no weights */
    return (written){.program = other ? cfx_open(ZOO "cond/model.pt2") : model(false)};
}

static written quantized(bool other, cfx_quantize_options o) {
    const cfx_quantized *q = cfx_quantize(model(other), CFX_NONE, o);
    return (written){.program = cfx_failed(q) ? NULL : q->program};
}

static written an_int8_program(bool other) {
    return quantized(other, (cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC});
}

static written an_int4_program(bool other) {
    return quantized(other, (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4});
}

static written a_tensor(bool other) {
    return (written){.value = cfx_tensor_value(tensor(other))};
}

static written a_list(bool other) { return (written){.value = cfx_list(tensor(other), "a word")}; }

static written a_dict(bool other) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_tensor_value(tensor(other)));
    return (written){.value = cfx_dict_value(d)};
}

static bool write_program(const char *path, written w) { return cfx_save(w.program, path); }

static bool write_npy(const char *path, written w) {
    return cfx_npy_write(path, cfx_as_tensor(w.value));
}

static bool write_torch(const char *path, written w) { return cfx_torch_save(path, w.value); }

/* By the ending of the path: .svg, .dot or .html. */
static bool write_drawing(const char *path, written w) {
    return cfx_program_draw_file(w.program, path, (cfx_draw_options){0});
}

static bool write_tensors(const char *path, written w) {
    return cfx_safetensors_write(path, cfx_as_dict(w.value), NULL);
}

static bool write_checkpoint(const char *path, written w) {
    return cfx_checkpoint_write(path, w.value);
}

static const struct {
    const char *name;
    written (*make)(bool other);
    bool (*write)(const char *path, written w);
    const char *beside; /* what is written with it; or NULL */
} writers[] = {{"m.pt2", a_program, write_program, NULL},
               {"m.fx", another_program, write_program, "m.safetensors"},
               {"m.npy", a_tensor, write_npy, NULL},
               {"m.pt", a_list, write_torch, NULL},
               {"m.safetensors", a_dict, write_tensors, NULL},
               {"m.svg", another_program, write_drawing, NULL},
               {"m.html", another_program, write_drawing, NULL},
               {"m.dot", another_program, write_drawing, NULL},
               {"int8.pt2", an_int8_program, write_program, NULL},
               {"int4.pt2", an_int4_program, write_program, NULL},
               {"c.safetensors", a_list, write_checkpoint, NULL}};

static bool write_with(int i, bool other) {
    return writers[i].write(test_path(writers[i].name), writers[i].make(other));
}

/* A disk that is full after so many bytes: every writer says so and leaves the old file. */
TEST(a_full_disk_is_told_by_every_writer) {
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < COUNT(writers); i++)
        CFX_SCOPE {
            const char *path = test_path(writers[i].name);
            CHECK(write_with(i, false));
            struct stat before, after;
            CHECK(stat(path, &before) == 0);
            bool thorough = getenv("CFX_THOROUGH") != NULL;
            for (rlim_t room = 0; room < (rlim_t)before.st_size;
                 room += thorough ? 16 : 1 + room / 3) {
                struct rlimit none, all;
                getrlimit(RLIMIT_FSIZE, &all);
                none = (struct rlimit){room, all.rlim_max};
                setrlimit(RLIMIT_FSIZE, &none);
                bool wrote = write_with(i, false), told = !cfx_ok();
                setrlimit(RLIMIT_FSIZE, &all);
                if (told)
                    CHECK_ERROR("cannot write");
                if (!CHECK(told && !wrote))
                    printf("  %s, %d bytes\n", path, (int)room);
                CHECK(stat(path, &after) == 0 && after.st_size == before.st_size);
            }
        }
    CHECK_INT(test_folder_clear(), COUNT(writers)); /* the tensors of m.fx are m.safetensors */
    cfx_npy_write("/dev/full", cfx_ones(3));
    CHECK_ERROR("cannot write '/dev/full': No space left on device");
}

/* ---- killed ---------------------------------------------------------------------------------- */

/* Writes the other one in a child that is killed at its n-th system call. Whether it was. */
static bool killed_at(int n, int i) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        written w = writers[i].make(true);
        const char *path = test_path(writers[i].name);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        writers[i].write(path, w);
        _exit(0);
    }
    int status = 0;
    for (waitpid(child, &status, 0); n > 0 && WIFSTOPPED(status); n--) {
        ptrace(PTRACE_SYSCALL, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
    bool alive = WIFSTOPPED(status);
    if (alive) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return alive;
}

/* The bytes of a file, or "" where there is none. */
static cfx_value bytes_of(const char *path) {
    cfx__file_mapping *m = cfx__file_map(path);
    cfx_error_clear();
    cfx_string *s = cfx__string_new(m ? m->data : "", m ? m->size : 0);
    cfx_drop(m);
    return cfx__value_of_string(s);
}

/* What a writer left there, with what a reader finds beside it. */
static cfx_value content(int i) {
    const char *path = test_path(writers[i].name);
    char *beside = writers[i].beside ? cfx__file_pending(path, test_path(writers[i].beside)) : NULL;
    cfx_value v = cfx_tuple(bytes_of(path), beside ? bytes_of(beside) : CFX_NONE);
    cfx__free(beside);
    return v;
}

static void kill_everywhere(int i) {
    CHECK(write_with(i, true));
    cfx_value fresh = content(i);
    CHECK(write_with(i, false));
    cfx_value old = content(i);
    CHECK(!cfx_equal_values(old, fresh));
    bool alive = true, replaced = false;
    int kills = 0;
    for (int n = 1; alive && n < 4000; n++, kills += alive)
        CFX_SCOPE {
            alive = killed_at(n, i);
            cfx_value now = content(i);
            bool new = cfx_equal_values(now, fresh);
            if (!new && !cfx_equal_values(now, old))
                test_fail(CFX_HERE, "%s, killed at system call %d, is neither old nor new",
                          writers[i].name, n);
            replaced |= new;
            if (new && alive)
                CHECK(write_with(i, false));
        }
    CHECK(replaced && !alive && kills > 20);
    CHECK(write_with(i, false)); /* sweeps */
    CHECK_INT(test_folder_clear(), writers[i].beside ? 2 : 1);
}

static void kill_each(int first, int last) {
    for (int i = first; i <= last; i++)
        CFX_SCOPE kill_everywhere(i);
}

TEST(a_program_is_replaced_whole_or_not_at_all) { kill_each(0, 0); }
TEST(a_text_and_its_tensors_are_replaced_together) { kill_each(1, 1); }
TEST(tensors_are_replaced_whole_or_not_at_all) { kill_each(2, 4); }
TEST(drawings_are_replaced_whole_or_not_at_all) { kill_each(5, 7); }
TEST(quantized_programs_are_replaced_whole_or_not_at_all) { kill_each(8, 9); }
TEST(a_checkpoint_is_replaced_whole_or_not_at_all) { kill_each(10, COUNT(writers) - 1); }
