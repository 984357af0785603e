# Completion of the command cfx for bash.
_cfx() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "show run convert decompose draw bench ops --help --version" -- "$word"))
        return
    fi
    case $before in
    --as) COMPREPLY=($(compgen -W "tree graph table code readable program json" -- "$word")) ;;
    --log) COMPREPLY=($(compgen -W "api aten" -- "$word")) ;;
    --inputs | --save | --expect) COMPREPLY=($(compgen -f -X '!*.safetensors' -- "$word")) ;;
    --profile) COMPREPLY=($(compgen -f -X '!*.json' -- "$word")) ;;
    -o) COMPREPLY=($(compgen -f -X '!*.@(svg|dot|pt2|fx)' -- "$word") $(compgen -d -- "$word")) ;;
    --node | --tap | --threads | --op | --depth | --focus | --keep) COMPREPLY=() ;;
    check) COMPREPLY=($(compgen -d -- "$word")) ;;
    *)
        case ${COMP_WORDS[1]}:$word in
        show:-*) COMPREPLY=($(compgen -W "--cost --size --as --node --help" -- "$word")) ;;
        run:-*)
            COMPREPLY=($(compgen -W "--inputs --save --expect --tap --stats --log --profile
                --threads --help" -- "$word"))
            ;;
        bench:-*) COMPREPLY=($(compgen -W "--inputs --threads --runs --help" -- "$word")) ;;
        draw:-*) COMPREPLY=($(compgen -W "-o --depth --focus --all --with --help" -- "$word")) ;;
        convert:-*) COMPREPLY=($(compgen -W "-o --help" -- "$word")) ;;
        decompose:-*) COMPREPLY=($(compgen -W "-o --keep --help" -- "$word")) ;;
        ops:*) COMPREPLY=($(compgen -W "check --markdown --op --help" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -X '!*.@(pt2|fx)' -- "$word") $(compgen -d -- "$word")) ;;
        esac
        ;;
    esac
}
complete -o filenames -F _cfx cfx
