#compdef cfx
# Completion of cfx for zsh; nodes are those of the program that the line names.

_cfx_model() {
    local word
    for word in $words; do
        [[ $word == *.(pt2|fx) && -f $word ]] && print -r -- $word && return
    done
}

_cfx_nodes() {
    local model=$(_cfx_model)
    [[ -n $model ]] || return
    compadd -- ${(f)"$(cfx show $model --as graph 2>/dev/null |
        sed -n 's/^ *%\([A-Za-z_0-9]*\) .*/\1/p')"}
}

_cfx() {
    local -a commands=(show run compare convert decompose draw bench ops)
    if (( CURRENT == 2 )); then
        compadd -- $commands --help --version
        return
    fi
    case $words[CURRENT-1] in
    --node|--around|--path|--tap|--focus) _cfx_nodes; return ;;
    --as) compadd -- tree graph table code readable program json; return ;;
    --log) compadd -- api aten; return ;;
    --inputs|--expect|--save|--save-taps) _files -g '*.safetensors'; return ;;
    -o|--with|--profile|--memory) _files; return ;;
    esac
    if [[ $words[CURRENT] == -* ]]; then
        compadd -- ${(f)"$(cfx $words[2] --help 2>/dev/null | grep -o -E '^  -[-a-z]+' | tr -d ' ')"}
    else
        _files -g '*.(pt2|fx|safetensors)'
    fi
}

_cfx "$@"
