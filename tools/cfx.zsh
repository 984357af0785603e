#compdef cfx
# Completion of cfx for zsh: commands and options are those that its help names, nodes those of the
# program that the line names, as far as they are plain names: files may hold others.

_cfx_nodes() {
    local word
    for word in ${(Q)words}; do
        [[ $word == -* ]] && word=./$word
        [[ $word == *.(pt2|fx|onnx) && -f $word ]] || continue
        compadd -- ${(f)"$(cfx show $word --as names --max-seconds 2 2>/dev/null |
            LC_ALL=C grep -x -E '[A-Za-z_][A-Za-z0-9_.]*')"}
        return
    done
}

# of the usage, and those that have a line of their own
_cfx_options() {
    { cfx $1 --help | sed '/^$/q' | LC_ALL=C grep -o -E '[[ ]-[-a-z]+'
        cfx $1 --help | LC_ALL=C grep -o -E '^  -[-a-z]+'; } | tr -d '[ ' | sort -u
}

_cfx() {
    if (( CURRENT == 2 )); then
        compadd -- ${(f)"$(cfx --help | sed -n 's/^  \([^ ]*\)  .*/\1/p')"} --help --version
        return
    fi
    case $words[CURRENT-1] in
    --node|--around|--path|--tap|--focus|--skip) _cfx_nodes; return ;;
    --as) compadd -- tree graph table code readable program json plan c names; return ;;
    --pass) compadd -- ${(f)"$(cfx opt --list | cut -c3- | cut -d' ' -f1)"}; return ;;
    --log) compadd -- api aten; return ;;
    --scheme) compadd -- static dynamic weight; return ;;
    --weights) compadd -- int8 int4; return ;;
    --per) compadd -- channel tensor group; return ;;
    --range) compadd -- histogram minmax average percentile; return ;;
    --inputs|--expect|--calibrate) _files -g '*.(safetensors|npy|npz|pt|png|jpg|jpeg)'; return ;;
    --save|--save-taps) _files -g '*.safetensors'; return ;;
    --threads|--runs|--op|--depth|--size|--keep|--smooth|--target|--max-*) return ;;
    esac
    if [[ $words[CURRENT] == -* ]]; then
        compadd -- ${(f)"$(_cfx_options $words[2] 2>/dev/null)"} --help
    else
        [[ $words[2] == ops ]] && compadd -- check
        _files
    fi
}

_cfx "$@"
