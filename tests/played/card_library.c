/* The card of card.c as libcuda.so.1 and libnvrtc.so.13, for tests of the command and of the Python
 * package: CFX_CUDA_PATH names the folder of both. CFX_CARD_MEMORY: the bytes that it has;
 * CFX_CARD_FAILS: what its kernels answer; CFX_CARD_COUNT: how many there are. */
#include "../card.c"

void test_fail(cfx_site at, const char *format, ...) {
    fprintf(stderr, "%s:%d: %s\n", at.file, at.line, format);
}

static long set_to(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    setenv("CFX_CACHE", "", 0); /* code of this card is a path, which is of no use later */
    card = (card_state){.count = (int)set_to("CFX_CARD_COUNT", 1), .version = 13000,
                        .processors = 132, .shared = 227 << 10,
                        .most = (size_t)set_to("CFX_CARD_MEMORY", 0),
                        .fail_kernel = (int)set_to("CFX_CARD_FAILS", 0)};
}

#define GIVE(symbol, f)                                                                            \
    extern __typeof__(f) given_##f __asm__(symbol) __attribute__((alias(#f), visibility("default")))

GIVE("cuInit", init);
GIVE("cuDriverGetVersion", driver_version);
GIVE("cuDeviceGetCount", count);
GIVE("cuDeviceGet", get);
GIVE("cuDeviceGetName", name);
GIVE("cuDeviceGetAttribute", attribute);
GIVE("cuDevicePrimaryCtxRetain", retain);
GIVE("cuCtxSetCurrent", set_current);
GIVE("cuMemAlloc_v2", take_memory);
GIVE("cuMemFree_v2", give_memory);
GIVE("cuMemAllocManaged", take_shared);
GIVE("cuMemcpyAsync", copy);
GIVE("cuMemsetD8Async", fill);
GIVE("cuStreamCreate", stream_create);
GIVE("cuStreamSynchronize", stream_wait);
GIVE("cuStreamBeginCapture_v2", capture_begin);
GIVE("cuStreamEndCapture", capture_end);
GIVE("cuGraphInstantiateWithFlags", graph_make);
GIVE("cuGraphLaunch", graph_launch);
GIVE("cuGraphDestroy", graph_free);
GIVE("cuModuleLoadData", module_load);
GIVE("cuModuleUnload", module_unload);
GIVE("cuModuleGetFunction", module_function);
GIVE("cuFuncSetAttribute", function_set);
GIVE("cuLaunchKernelEx", launch);
GIVE("cuEventCreate", event_create);
GIVE("cuEventDestroy_v2", event_destroy);
GIVE("cuEventRecord", event_record);
GIVE("cuEventElapsedTime", event_elapsed);
GIVE("cuGetErrorString", error_text);
GIVE("nvrtcVersion", version_of);
GIVE("nvrtcCreateProgram", create);
GIVE("nvrtcCompileProgram", compile);
GIVE("nvrtcGetCUBINSize", code_size);
GIVE("nvrtcGetCUBIN", code_of);
GIVE("nvrtcGetProgramLogSize", log_size);
GIVE("nvrtcGetProgramLog", log_of);
GIVE("nvrtcDestroyProgram", destroy);

static int graph_exec_free(void *g) { return graph_free(g); }
GIVE("cuGraphExecDestroy", graph_exec_free);
