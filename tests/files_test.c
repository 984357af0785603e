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
    cfx_open("/dev/zero");
    CHECK_ERROR("cannot read '/dev/zero': not a regular file");
    cfx_npy_write(test_path("pipe.pt2"), cfx_ones(3));
    CHECK_ERROR("cannot write");
    CHECK_INT(test_folder_clear(), 1);
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

TEST(a_file_is_copied_on_request) {
    const char *path = test_path("t.npy");
    CHECK(cfx_npy_write(path, cfx_ones(3000)));
    cfx_set_copy_files(true);
    cfx_tensor *t = cfx_npy_read(path);
    CHECK(truncate(path, 10) == 0);
    CHECK_NEAR(cfx_tensor_get(t, 2999), 1, 0); /* mapped, this would end the process */
    cfx_npy_read(path);
    CHECK(!cfx_ok());
    cfx_clear();
    cfx_set_copy_files(false);
    test_folder_clear();
}

/* ---- writers --------------------------------------------------------------------------------- */

typedef bool writer_fn(const char *path);

static cfx_program *model(void) { return cfx_open(ZOO "seed_mlp/model.pt2"); }
static bool write_pt2(const char *path) { return cfx_save(model(), path); }
static bool write_npy(const char *path) { return cfx_npy_write(path, cfx_ones(40, 40)); }

static bool write_torch(const char *path) {
    return cfx_torch_save(path, cfx_list(cfx_ones(40, 40), "a word"));
}

/* By the ending of the path: .svg, .dot or .html. */
static bool write_drawing(const char *path) {
    return cfx_program_draw_file(model(), path, (cfx_draw_options){0});
}

static bool write_int8(const char *path) {
    const cfx_quantized *q = cfx_quantize(
        model(), CFX_NONE, (cfx_quantize_options){.scheme = CFX_QUANTIZE_DYNAMIC});
    return !cfx_failed(q) && cfx_save(q->program, path);
}

static bool write_int4(const char *path) {
    const cfx_quantized *q = cfx_quantize(
        model(), CFX_NONE, (cfx_quantize_options){.scheme = CFX_QUANTIZE_WEIGHT, .bits = 4});
    return !cfx_failed(q) && cfx_save(q->program, path);
}

static bool write_tensors(const char *path) {
    cfx_dict *d = cfx_dict_new();
    cfx_dict_set(d, "a", cfx_tensor_value(cfx_ones(40, 40)));
    return cfx_safetensors_write(path, d, NULL);
}

static bool write_checkpoint(const char *path) {
    return cfx_checkpoint_write(path, cfx_list(cfx_ones(40, 40), 1));
}

static const struct {
    const char *name;
    writer_fn *write;
} writers[] = {{"m.pt2", write_pt2},           {"m.fx", write_pt2},
               {"m.npy", write_npy},           {"m.pt", write_torch},
               {"m.svg", write_drawing},       {"m.html", write_drawing},
               {"m.dot", write_drawing},       {"int8.pt2", write_int8},
               {"int4.pt2", write_int4},
               {"m.safetensors", write_tensors}, {"c.safetensors", write_checkpoint}};

/* A disk that is full after so many bytes: every writer says so and leaves the old file. */
TEST(a_full_disk_is_told_by_every_writer) {
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < COUNT(writers); i++)
        CFX_SCOPE {
            const char *path = test_path(writers[i].name);
            CHECK(writers[i].write(path));
            struct stat before, after;
            CHECK(stat(path, &before) == 0);
            for (rlim_t room = 0; room < (rlim_t)before.st_size; room += 1 + room / 3) {
                struct rlimit none, all;
                getrlimit(RLIMIT_FSIZE, &all);
                none = (struct rlimit){room, all.rlim_max};
                setrlimit(RLIMIT_FSIZE, &none);
                bool wrote = writers[i].write(path), told = !cfx_ok();
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

/* Saves other tensors in a child that is killed at its n-th system call. Whether it was. */
static bool killed_at(int n, const char *path) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        cfx_program *p = model();
        cfx_tensor *w = cfx_program_tensor(p, &p->inputs[0]);
        cfx_fill_(w, 7);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        cfx_save(p, path);
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

/* The first weight, which tells the old program from the new one. */
static double first_weight(const char *path) {
    cfx_program *p = cfx_open(path);
    return CHECK_OK() ? cfx_tensor_get(cfx_program_tensor(p, &p->inputs[0]), 0) : 0;
}

static void kill_everywhere(const char *name) {
    const char *path = test_path(name);
    CHECK(cfx_save(model(), path));
    double old = first_weight(path);
    bool alive = true, replaced = false;
    for (int n = 1; alive && n < 4000; n++)
        CFX_SCOPE {
            alive = killed_at(n, path);
            double now = first_weight(path);
            if (now != old && now != 7)
                test_fail(CFX_HERE, "killed at system call %d, the file is neither old nor new", n);
            replaced |= now == 7;
            if (now == 7 && alive)
                CHECK(cfx_save(model(), path)); /* the old one again */
        }
    CHECK(replaced && !alive);
    CHECK(cfx_save(model(), path)); /* sweeps */
    CHECK_INT(test_folder_clear(), strstr(name, ".fx") ? 2 : 1);
}

TEST(a_save_that_is_killed_leaves_the_old_or_the_new_file) { kill_everywhere("m.pt2"); }
TEST(a_text_and_its_tensors_are_replaced_together) { kill_everywhere("m.fx"); }
