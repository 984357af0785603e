# Completion of the command cfx for bash; nodes are those of the program that the line names.
_cfx_nodes() {
    local model
    for model in "${COMP_WORDS[@]}"; do
        case $model in
        *.pt2 | *.fx)
            test -f "$model" && cfx show "$model" --as graph 2>/dev/null |
                sed -n 's/^ *%\([A-Za-z_0-9]*\) .*/\1/p'
            return
            ;;
        esac
    done
}

_cfx() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "show run compare convert decompose opt rewrite quantize draw bench ops --help --version" -- "$word"))
        return
    fi
    case $before in
    --as) COMPREPLY=($(compgen -W "tree graph table code readable program json plan" -- "$word")) ;;
    --pass) COMPREPLY=($(compgen -W "$(cfx opt --list | cut -c3- | cut -d' ' -f1)" -- "$word")) ;;
    --rules) COMPREPLY=($(compgen -f -- "$word")) ;;
    --log) COMPREPLY=($(compgen -W "api aten" -- "$word")) ;;
    --inputs | --save | --expect | --save-taps) COMPREPLY=($(compgen -f -X '!*.safetensors' -- "$word")) ;;
    --profile | --with) COMPREPLY=($(compgen -f -X '!*.json' -- "$word")) ;;
    --memory) COMPREPLY=($(compgen -f -X '!*.svg' -- "$word")) ;;
    -o)
        COMPREPLY=($(compgen -f -X '!*.@(svg|html|dot|pt2|fx)' -- "$word")
            $(compgen -d -- "$word"))
        ;;
    --node | --around | --path | --tap | --focus)
        COMPREPLY=($(compgen -W "$(_cfx_nodes)" -- "$word"))
        ;;
    --threads | --op | --depth | --hops | --size | --check | --keep) COMPREPLY=() ;;
    check) COMPREPLY=($(compgen -d -- "$word")) ;;
    *)
        case ${COMP_WORDS[1]}:$word in
        show:-*) COMPREPLY=($(compgen -W "--cost --size --as --node --path --around --hops --help" -- "$word")) ;;
        run:-*)
            COMPREPLY=($(compgen -W "--inputs --save --expect --tap --save-taps --stats
                --find-nan --check --log --profile --memory --reference --random --threads --precision --help" -- "$word"))
            ;;
        compare:-*) COMPREPLY=($(compgen -W "--inputs --bisect --as -o --help" -- "$word")) ;;
        bench:-*) COMPREPLY=($(compgen -W "--inputs --threads --runs --busy --precision --reference --help" -- "$word")) ;;
        draw:-*) COMPREPLY=($(compgen -W "-o --depth --focus --all --with --help" -- "$word")) ;;
        convert:-*) COMPREPLY=($(compgen -W "-o --help" -- "$word")) ;;
        opt:-*)
            COMPREPLY=($(compgen -W "-o --pass --list --explain --verify --inputs --bisect
                --extract --reduce --check --join --wire --help" -- "$word"))
            ;;
        rewrite:-*)
            COMPREPLY=($(compgen -W "--rules -o --verify --inputs --help" -- "$word"))
            ;;
        quantize:-*)
            COMPREPLY=($(compgen -W "-o --calibrate --scheme --weights --per --range --smooth
                --keep-bias --skip --target --report --help" -- "$word"))
            ;;
        decompose:-*) COMPREPLY=($(compgen -W "-o --keep --help" -- "$word")) ;;
        ops:*) COMPREPLY=($(compgen -W "check --markdown --op --help" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -X '!*.@(pt2|fx)' -- "$word") $(compgen -d -- "$word")) ;;
        esac
        ;;
    esac
}
complete -o filenames -F _cfx cfx
