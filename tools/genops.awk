# Reads operator rows, checks them, writes the header and the table. Run by tools/genops.
#
# A row starts with CFX_OP(name) at the start of a line and ends with the brace that closes it. Its
# first string literal is the schema; the literal right after it, or after .torch_ =, lists the
# Python spellings; a row with .inplace = has an in-place form. Adjacent literals are one, as in C.

function fail(text) {
    printf "%s: %s\n", row_at, text > "/dev/stderr"
    failed = 1
}

# Cuts the row's text into tokens: kind[i] is "s" (string literal, with value[i]) or "c" (a word or
# a character). Comments are dropped. Sets ntok; returns whether the closing brace was seen.
function tokenize(text,    i, n, c, depth, word, s, end) {
    ntok = 0
    depth = 0
    n = length(text)
    for (i = 1; i <= n; i++) {
        c = substr(text, i, 1)
        if (c == "/" && substr(text, i, 2) == "/*") {
            end = index(substr(text, i + 2), "*/")
            if (!end)
                return 0
            i += end + 2
        } else if (c == "/" && substr(text, i, 2) == "//") {
            end = index(substr(text, i), "\n")
            if (!end)
                return 0
            i += end - 1
        } else if (c == "\"") {
            s = ""
            for (i++; i <= n && (c = substr(text, i, 1)) != "\""; i++) {
                if (c == "\\")
                    s = s c substr(text, ++i, 1)
                else
                    s = s c
            }
            if (ntok && kind[ntok] == "s")
                value[ntok] = value[ntok] s
            else {
                kind[++ntok] = "s"
                value[ntok] = s
            }
        } else if (match(substr(text, i), /^[A-Za-z0-9_]+/)) {
            word = substr(text, i, RLENGTH)
            i += RLENGTH - 1
            kind[++ntok] = "c"
            value[ntok] = word
        } else if (c !~ /[ \t\r\n]/) {
            kind[++ntok] = "c"
            value[ntok] = c
            if (c == "{")
                depth++
            if (c == "}" && --depth == 0)
                return 1
        }
    }
    return 0
}

function designated(i, field) {
    return i > 3 && value[i - 1] == "=" && value[i - 2] == field && value[i - 3] == "."
}

# Takes one whole row: cname is the macro's argument.
function take(cname,    i, schema, torch, inplace, at, ns, name, overload, ret, full, fn, rest) {
    for (i = 1; i <= ntok; i++) {
        if (kind[i] != "s")
            continue
        if (designated(i, "torch_"))
            torch = value[i]
        else if (designated(i, "inplace"))
            inplace = value[i]
        else if (schema == "") {
            schema = value[i]
            at = i
        } else if (torch == "" && i == at + 2 && value[i - 1] == ",")
            torch = value[i]
    }
    if (schema !~ /^[A-Za-z_][A-Za-z0-9_]*::[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?\(.*\) -> [^ ].*$/) {
        fail("CFX_OP(" cname "): \"" schema "\" is not a schema like \"aten::relu(Tensor self) -> Tensor\"")
        return
    }
    i = index(schema, "::")
    ns = substr(schema, 1, i - 1)
    rest = substr(schema, i + 2)
    name = substr(rest, 1, index(rest, "(") - 1)
    overload = ""
    if ((i = index(name, ".")) > 0) {
        overload = substr(name, i + 1)
        name = substr(name, 1, i - 1)
    }
    fn = name
    full = ns "::" name
    if (ns != "aten" && cname == ns "_" name (overload == "" ? "" : "_" overload))
        fn = ns "_" name
    else if (cname != name (overload == "" ? "" : "_" overload)) {
        fail("CFX_OP(" cname ") does not fit its schema: " ns "::" name \
             (overload == "" ? "" : "." overload) " wants CFX_OP(" name \
             (overload == "" ? "" : "_" overload) ")")
        return
    }
    if (cname in where) {
        fail("CFX_OP(" cname ") is written twice; first at " where[cname])
        return
    }
    where[cname] = row_at
    ret = schema
    while ((i = index(ret, ") -> ")) > 0)
        ret = substr(ret, i + 5)

    op_key[++nops] = full "." (overload == "" ? "default" : overload)
    op_c[op_key[nops]] = cname
    op_schema[cname] = schema
    op_family[cname] = family
    op_overload[cname] = overload == "" ? "default" : overload
    op_single[cname] = ret ~ /^\(?Tensor(\([a-z]!?\))?( [a-z_]+)?\)?$/
    if (!(fn in fn_n)) {
        fn_list[++nfns] = full
        fn_c[full] = fn
        fn_name[fn] = fn == name ? name : ns "." name
        fn_n[fn] = 0
    }
    if (inplace != "")
        fn_inplace[fn] = 1
    fn_op[fn, ++fn_n[fn]] = cname
    fn_ops[fn] = fn_ops[fn] (fn_n[fn] > 1 ? ", " : "") "&cfx_op_" cname
    if (op_single[cname])
        fn_tensor[fn] = 1

    n_words = split(torch, words, /[ \t]+/)
    for (i = 1; i <= n_words; i++) {
        if (words[i] == "")
            continue
        if (words[i] in spelling_fn) {
            if (spelling_fn[words[i]] != fn)
                fail("\"" words[i] "\" already spells " spelling_fn[words[i]])
            continue
        }
        spelling_fn[words[i]] = fn
        spelling[++nspellings] = words[i]
    }
}

# Sorts list[1..n] of strings by their bytes (heapsort: awk has none of its own).
function sort(list, n,    i, t) {
    for (i = int(n / 2); i >= 1; i--)
        sift(list, i, n)
    for (i = n; i > 1; i--) {
        t = list[1]
        list[1] = list[i]
        list[i] = t
        sift(list, 1, i - 1)
    }
}

function sift(list, i, n,    child, t) {
    while ((child = 2 * i) <= n) {
        if (child < n && (list[child] "") < (list[child + 1] ""))
            child++
        if ((list[i] "") >= (list[child] ""))
            return
        t = list[i]
        list[i] = list[child]
        list[child] = t
        i = child
    }
}

function define(name, how) {
    if (name in taken)
        printf "/* %s(...) is another function: see cfx.h */\n", name > header
    else if (name in defined)
        fail("the macro " name "(...) is wanted by two operators")
    else
        printf "#define %s(...) %s, CFX_ARGS(__VA_ARGS__))\n", name, how > header
    defined[name] = 1
}

# What the macro of a function is called. aten::_softmax keeps its namespace: names that start with
# cfx__ are the library's own.
function spelled(fn) {
    return fn ~ /^_/ ? "cfx_aten_" fn : "cfx_" fn
}

function write_header(    i, k, fn, c) {
    print "/* Every operator, as a struct, a function and a macro that calls it. Made by tools/genops.\n" \
          " *\n" \
          " *   cfx_NAME(...)           calls a function: its overloads are resolved by the arguments\n" \
          " *   cfx_NAME_OVERLOAD(...)  one overload whose result is not one tensor: a cfx_value\n" \
          " *   cfx_NAME_(...)          in place: writes to its first argument and returns it\n" \
          " *   cfx_aten__NAME(...)     aten::_NAME: names with a leading underscore keep aten */\n" \
          "#ifndef CFX_OPS_H\n#define CFX_OPS_H\n\n#include <cfx/op.h>\n\n" \
          "#ifdef __cplusplus\nextern \"C\" {\n#endif\n" > header
    for (i = 1; i <= nfns; i++) {
        fn = fn_c[fn_list[i]]
        row_at = where[fn_op[fn, 1]]
        printf "/* %s */\n", fn_list[i] > header
        for (k = 1; k <= fn_n[fn]; k++)
            printf "extern CFX_API cfx_op cfx_op_%s; /* %s */\n", fn_op[fn, k], \
                op_schema[fn_op[fn, k]] > header
        printf "extern CFX_API const cfx_fn cfx_fn_%s;\n", fn > header
        if (!fn_tensor[fn])
            define(spelled(fn), "cfx_fn_call_from(CFX_HERE, &cfx_fn_" fn)
        else {
            define(spelled(fn), "cfx_fn_call_tensor_from(CFX_HERE, &cfx_fn_" fn)
            for (k = 1; k <= fn_n[fn]; k++) {
                c = fn_op[fn, k]
                if (!op_single[c])
                    define(spelled(fn) "_" op_overload[c], "cfx_op_do_from(CFX_HERE, &cfx_op_" c)
            }
        }
        if (fn_inplace[fn] && !((fn "_") in fn_n))
            define(spelled(fn) "_", "cfx_fn_call_inplace_from(CFX_HERE, &cfx_fn_" fn)
        print "" > header
    }
    print "#ifdef __cplusplus\n}\n#endif\n#endif" > header
}

function write_table(    i, fn) {
    print "/* All operators in order of their full names, aten::relu.default. Made by tools/genops;\n" \
          " * included by the registry alone. */\n" > table
    print "static cfx_op *const all_ops[] = {" > table
    for (i = 1; i <= nops; i++)
        printf "    &cfx_op_%s,\n", op_c[op_key[i]] > table
    print "};\n\nstatic const uint8_t all_families[] = {" > table
    for (i = 1; i <= nops; i++)
        printf "    CFX__OP_%s,\n", op_family[op_c[op_key[i]]] > table
    print "};\n\nstatic const char *const all_names[] = {" > table
    for (i = 1; i <= nops; i++)
        printf "    \"%s\",\n", op_key[i] > table
    print "};\n" > table
    for (i = 1; i <= nfns; i++) {
        fn = fn_c[fn_list[i]]
        printf "const cfx_fn cfx_fn_%s = {\"%s\", %d, (cfx_op *const[]){%s}};\n", fn, fn_name[fn], \
            fn_n[fn], fn_ops[fn] > table
    }
    print "\nstatic const named_fn all_fns[] = {" > table
    for (i = 1; i <= nfns; i++)
        printf "    {\"%s\", &cfx_fn_%s},\n", fn_list[i], fn_c[fn_list[i]] > table
    print "};\n\nstatic const named_fn spellings[] = {" > table
    for (i = 1; i <= nspellings; i++)
        printf "    {\"%s\", &cfx_fn_%s},\n", spelling[i], spelling_fn[spelling[i]] > table
    print "};" > table
}

function write_columns(    i) {
    print "/* Functions that rows name as columns. Made by tools/genops; included by columns.h. */" \
          > columns
    for (i = 1; i <= ncolumns; i++)
        printf "%s;\n", column[i] > columns
}

FNR == 1 && row != "" {
    fail("this row is not closed before the file ends")
    row = ""
}

# Names that headers declare: an operator's macro must not hide them.
FILENAME ~ /\.h$/ {
    line = $0
    if (line ~ /^(CFX_API|static inline) .*cfx_[a-z0-9_]+\(/ || line ~ /^#define cfx_[a-z0-9_]+\(/) {
        match(line, /cfx_[a-z0-9_]+\(/)
        taken[substr(line, RSTART, RLENGTH - 1)] = 1
    }
    next
}

FNR == 1 {
    family = "UNSAID"
}
/^CFX_FAMILY\([A-Z]+\);/ {
    match($0, /\([A-Z]+/)
    family = substr($0, RSTART + 1, RLENGTH - 1)
}

# Columns that rows of other files may name.
/^void grad_[a-z0-9_]+\(cfx_back / {
    match($0, /grad_[a-z0-9_]+/)
    column[++ncolumns] = "cfx_grad_fn " substr($0, RSTART, RLENGTH)
}
/^(BACK|TWICE)\([a-z0-9_]+,/ {
    match($0, /\([a-z0-9_]+/)
    column[++ncolumns] = "cfx_grad_fn grad_" substr($0, RSTART + 1, RLENGTH - 1)
}
/^CORE\([A-Za-z0-9_]+\)/ {
    match($0, /\([A-Za-z0-9_]+/)
    column[++ncolumns] = "cfx_op_fn core_" substr($0, RSTART + 1, RLENGTH - 1)
}

row == "" && /^CFX_OP\(/ {
    row_at = FILENAME ":" FNR
    if (!match($0, /^CFX_OP\([A-Za-z_0-9]+\)[ \t]*=?[ \t]*/)) {
        fail("expected CFX_OP(name) = {")
        next
    }
    row_name = $0
    sub(/^CFX_OP\(/, "", row_name)
    sub(/\).*/, "", row_name)
    row = substr($0, RLENGTH + 1) "\n"
    if (tokenize(row)) {
        take(row_name)
        row = ""
    }
    next
}

row != "" {
    if (/^CFX_OP\(/) {
        fail("this row is not closed before the next one starts")
        row = ""
        next
    }
    row = row $0 "\n"
    if (index($0, "}") && tokenize(row)) {
        take(row_name)
        row = ""
    }
}

END {
    if (row != "")
        fail("this row is not closed before the file ends")
    sort(op_key, nops)
    sort(fn_list, nfns)
    sort(spelling, nspellings)
    sort(column, ncolumns)
    if (!failed) {
        write_header()
        write_table()
        write_columns()
    }
    if (failed)
        exit 1
}
