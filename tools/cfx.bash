# Completion of the command cfx for bash.
_cfx() {
    local word=${COMP_WORDS[COMP_CWORD]}
    case $COMP_CWORD:${COMP_WORDS[1]}:${COMP_WORDS[2]} in
    1:*) COMPREPLY=($(compgen -W "ops --help" -- "$word")) ;;
    2:ops:*) COMPREPLY=($(compgen -W "check --markdown --help" -- "$word")) ;;
    3:ops:check) COMPREPLY=($(compgen -d -- "$word")) ;;
    esac
}
complete -F _cfx cfx
