# Completion of the command cfx for bash: commands and options are those that its help names, nodes
# those of the program that the line names.
_cfx_nodes() {
    local model
    for model in "${COMP_WORDS[@]}"; do
        case $model in
        *.pt2 | *.fx)
            test -f "$model" && cfx show "$model" --as graph 2>/dev/null |
                sed -n 's/^ *%\([^ ]*\) .*/\1/p'
            return
            ;;
        esac
    done
}

# of the usage, and those that have a line of their own
_cfx_options() {
    { cfx "$1" --help | sed '/^$/q' | LC_ALL=C grep -o -E '[[ ]-[-a-z]+'
        cfx "$1" --help | LC_ALL=C grep -o -E '^  -[-a-z]+'; } | tr -d '[ ' | sort -u
}

_cfx_words() { COMPREPLY=($(compgen -W "$1" -- "$2")); }

_cfx() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]}
    if [ "$COMP_CWORD" = 1 ]; then
        _cfx_words "$(cfx --help | sed -n 's/^  \([^ ]*\)  .*/\1/p') --help --version" "$word"
        return
    fi
    case $before in
    --as) _cfx_words "tree graph table code readable program json plan" "$word" ;;
    --pass) _cfx_words "$(cfx opt --list | cut -c3- | cut -d' ' -f1)" "$word" ;;
    --log) _cfx_words "api aten" "$word" ;;
    --scheme) _cfx_words "static dynamic weight" "$word" ;;
    --weights) _cfx_words "int8 int4" "$word" ;;
    --per) _cfx_words "channel tensor group" "$word" ;;
    --range) _cfx_words "histogram minmax average percentile" "$word" ;;
    --node | --around | --path | --tap | --focus | --skip) _cfx_words "$(_cfx_nodes)" "$word" ;;
    --inputs | --save | --expect | --save-taps | --calibrate)
        COMPREPLY=($(compgen -f -X '!*.safetensors' -- "$word") $(compgen -d -- "$word"))
        ;;
    --threads | --runs | --op | --depth | --size | --keep | --smooth | --target | --max-*) COMPREPLY=() ;;
    *)
        case $word in
        -*) _cfx_words "$(_cfx_options "$command") --help" "$word" ;;
        *)
            COMPREPLY=($(compgen -f -- "$word"))
            [ "$command" = ops ] && COMPREPLY+=($(compgen -W check -- "$word"))
            ;;
        esac
        ;;
    esac
}
complete -o filenames -F _cfx cfx
