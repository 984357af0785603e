# Plants an error in a program as text. -v what=op: one operator is another; what=cast: one value
# goes through bfloat16. The node is the middle one of those that it can be done to; its name is
# printed to /dev/stderr.
BEGIN {
    split("add.Tensor sub.Tensor sub.Tensor add.Tensor mul.Tensor add.Tensor div.Tensor mul.Tensor " \
          "relu.default sigmoid.default gelu.default relu.default silu.default relu.default " \
          "tanh.default sigmoid.default sigmoid.default tanh.default", pair, " ")
    for (i = 1; i in pair; i += 2)
        other[pair[i]] = pair[i + 1]
}
function operator(line) {
    if (!match(line, /torch\.ops\.aten\.[a-z_0-9]+\.[a-zA-Z]+/))
        return ""
    return substr(line, RSTART + 15, RLENGTH - 15)
}
{ line[NR] = $0 }
/: "f32\[/ && / = torch\.ops\.aten\./ {
    name = operator($0)
    if (what == "op" && (name in other))
        candidate[++n] = NR
    if (what == "cast" && name ~ /^(linear|addmm|mm|matmul|conv[a-z0-9]*|add|mul|relu|gelu|silu)\./)
        candidate[++n] = NR
}
END {
    if (!n)
        exit 1
    at = candidate[int((n + 1) / 2)]
    name = line[at]
    sub(/:.*/, "", name)
    sub(/^ */, "", name)
    print name > "/dev/stderr"
    for (i = 1; i <= NR; i++) {
        text = line[i]
        if (i == at && what == "op")
            sub("aten." operator(text), "aten." other[operator(text)], text)
        if (i > at && what == "cast") {
            gsub(/[A-Za-z_][A-Za-z_0-9]*/, "<&>", text)
            gsub("<" name ">", name "_back", text)
            gsub(/[<>]/, "", text)
        }
        if (i > at && what == "cast" && line[i] ~ /[<>]/)
            text = line[i]
        print text
        if (i == at && what == "cast") {
            print "        " name "_half = torch.ops.aten.to.dtype(" name ", torch.bfloat16)"
            print "        " name "_back = torch.ops.aten.to.dtype(" name "_half, torch.float32)"
        }
    }
}
