// cfx.h compiles as C++17.
#include <cfx.h>

int main() {
    return cfx_finish(stderr);
}
