/* Values from C++17 expressions: what CFX_V and CFX_ARGS are in C, as overloads and a template.
 * Included by cfx/value.h; not to be included alone. */
#ifndef CFX_VALUE_CPP_H
#define CFX_VALUE_CPP_H

#include <cstddef>
#include <string>
#include <type_traits>

/* CFX_V(x): the value of a number, string, tensor, dict, node, module, value or nullptr. */
template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
inline cfx_value CFX_V(T x) {
    if constexpr (std::is_same_v<T, bool>)
        return cfx_bool(x);
    else
        return cfx_int(static_cast<int64_t>(x));
}
inline cfx_value CFX_V(double x) { return cfx_float(x); }
inline cfx_value CFX_V(const char *x) { return cfx_string_value(x); }
inline cfx_value CFX_V(const std::string &x) { return cfx_string_value_n(x.data(), x.size()); }
inline cfx_value CFX_V(const cfx_tensor *x) { return cfx_tensor_value(x); }
inline cfx_value CFX_V(cfx_dict *x) { return cfx_dict_value(x); }
inline cfx_value CFX_V(cfx_node *x) { return cfx_node_value(x); }
inline cfx_value CFX_V(cfx_module *x) { return cfx_module_value(x); }
inline cfx_value CFX_V(std::nullptr_t) { return cfx_none(); }
inline cfx_value CFX_V(cfx_value x) { return x; }

/* What CFX_ARGS(...) makes: the values themselves, and a view of them for the call they are in. */
template <std::size_t N> struct cfx_cpp_args {
    cfx_value v[N ? N : 1];
    operator cfx_args() const { return cfx_args{static_cast<int>(N), v, nullptr}; }
};

template <typename... T> inline cfx_cpp_args<sizeof...(T)> CFX_ARGS(const T &...x) {
    return {{CFX_V(x)...}};
}

/* A struct of options; each `.field = value` is an assignment here. Up to 12. */
#define CFX_OPTIONS(type, ...)                                                                     \
    ([&] {                                                                                         \
        type options_{};                                                                           \
        CFX_PASTE(CFX_SET, CFX_COUNT(__VA_ARGS__))(__VA_ARGS__) return options_;                   \
    }())
#define CFX_SET0()
#define CFX_SET1(a) (void)(options_ a);
#define CFX_SET2(a, ...) (void)(options_ a); CFX_SET1(__VA_ARGS__)
#define CFX_SET3(a, ...) (void)(options_ a); CFX_SET2(__VA_ARGS__)
#define CFX_SET4(a, ...) (void)(options_ a); CFX_SET3(__VA_ARGS__)
#define CFX_SET5(a, ...) (void)(options_ a); CFX_SET4(__VA_ARGS__)
#define CFX_SET6(a, ...) (void)(options_ a); CFX_SET5(__VA_ARGS__)
#define CFX_SET7(a, ...) (void)(options_ a); CFX_SET6(__VA_ARGS__)
#define CFX_SET8(a, ...) (void)(options_ a); CFX_SET7(__VA_ARGS__)
#define CFX_SET9(a, ...) (void)(options_ a); CFX_SET8(__VA_ARGS__)
#define CFX_SET10(a, ...) (void)(options_ a); CFX_SET9(__VA_ARGS__)
#define CFX_SET11(a, ...) (void)(options_ a); CFX_SET10(__VA_ARGS__)
#define CFX_SET12(a, ...) (void)(options_ a); CFX_SET11(__VA_ARGS__)

#endif
