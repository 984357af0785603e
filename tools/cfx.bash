# Completion of the command cfx for bash: commands and options are those that its help names, nodes
# those of the program that the line names. Names come out of files that nobody vouches for: they
# are compared as they are, and never given to what would expand them (compgen -W does).

# The lines that are read and begin so.
_cfx_offer() {
    local line
    while IFS= read -r line; do
        [[ $line == "$1"* ]] && COMPREPLY+=("$line")
    done
}

_cfx_words() {
    local word=$1
    shift
    _cfx_offer "$word" < <(printf '%s\n' "$@")
}

# Files whose names end so; and folders.
_cfx_files() { _cfx_offer "" < <(compgen -f -X "!*$2" -- "$1"; test -z "$2" || compgen -d -- "$1"); }

_cfx_nodes() {
    local model
    for model in "${COMP_WORDS[@]}"; do
        model=${model//[\\\'\"]/}
        case $model in
        *.pt2 | *.fx | *.onnx)
            test -f "./$model" && model=./$model
            test -f "$model" && cfx show "$model" --as names --max-seconds 2 2>/dev/null |
                LC_ALL=C grep -x -E '[A-Za-z_][A-Za-z0-9_.]*'
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

_cfx() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        _cfx_offer "$word" < <(cfx --help | sed -n 's/^  \([^ ]*\)  .*/\1/p')
        _cfx_words "$word" --help --version
        return
    fi
    case $before in
    --as) _cfx_words "$word" tree graph table code readable program json plan c names ;;
    --pass) _cfx_offer "$word" < <(cfx opt --list | cut -c3- | cut -d' ' -f1) ;;
    --log) _cfx_words "$word" api aten ;;
    --scheme) _cfx_words "$word" static dynamic weight ;;
    --weights) [ "$command" = opt ] && _cfx_files "$word" "" || _cfx_words "$word" int8 int4 ;;
    --per) _cfx_words "$word" channel tensor group ;;
    --range) _cfx_words "$word" histogram minmax average percentile ;;
    --node | --around | --path | --tap | --focus | --skip) _cfx_offer "$word" < <(_cfx_nodes) ;;
    --inputs | --expect | --calibrate | --lora) _cfx_files "$word" "" ;;
    --tokenizer) _cfx_files "$word" .json ;;
    --save | --save-taps) _cfx_files "$word" .safetensors ;;
    --threads | --runs | --batch | --image | --text | --alpha | --op | --depth | --size | --keep | --smooth | --target | --stages | --tensor | --max-*) ;;
    *)
        case $word in
        -*)
            _cfx_offer "$word" < <(_cfx_options "$command")
            _cfx_words "$word" --help
            ;;
        *)
            _cfx_files "$word" ""
            [ "$command" != ops ] || _cfx_words "$word" check
            ;;
        esac
        ;;
    esac
}
complete -o filenames -F _cfx cfx
