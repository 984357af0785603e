# Completion of cfx for fish: commands and options are those that its help names, nodes those of the
# program that the line names, as far as they are plain names: files may hold others.

function __cfx_nodes
    for word in (commandline -opc)
        string match -q -- '-*' $word; and set word ./$word
        string match -qr '\.(pt2|fx|onnx)$' -- $word; and test -f $word; or continue
        cfx show $word --as names --max-seconds 2 2>/dev/null |
            string match -r '^[A-Za-z_][A-Za-z0-9_.]*$'
        return
    end
end

function __cfx_commands
    cfx --help | string replace -rf '^  ([a-z]+)  +(.*)' '$1\t$2'
end

# of the usage, and those that have a line of their own
function __cfx_options
    set -l words (commandline -opc)
    test (count $words) -gt 1; or return
    begin
        cfx $words[2] --help 2>/dev/null | sed '/^$/q' | LC_ALL=C grep -o -E '[[ ]-[-a-z]+'
        cfx $words[2] --help 2>/dev/null | LC_ALL=C grep -o -E '^  -[-a-z]+'
        echo -- --help
    end | tr -d '[ ' | sort -u
end

complete -c cfx -n __fish_use_subcommand -f -a '(__cfx_commands)'
complete -c cfx -n 'string match -qr "^-" -- (commandline -ct)' -a '(__cfx_options)'
complete -c cfx -n '__fish_seen_subcommand_from ops' -a check

# COMMANDS OPTION WORDS: what may follow an option
function __cfx_value
    complete -c cfx -n "__fish_seen_subcommand_from $argv[1]" -l $argv[2] -x -a $argv[3]
end

for option in node around path
    __cfx_value show $option '(__cfx_nodes)'
end
__cfx_value run tap '(__cfx_nodes)'
__cfx_value draw focus '(__cfx_nodes)'
__cfx_value quantize skip '(__cfx_nodes)'
__cfx_value 'show compare' as 'tree graph table code readable program json plan c names'
__cfx_value opt pass "(cfx opt --list | cut -c3- | cut -d' ' -f1)"
__cfx_value run log 'api aten'
__cfx_value quantize scheme 'static dynamic weight'
__cfx_value quantize weights 'int8 int4'
__cfx_value quantize per 'channel tensor group'
__cfx_value quantize range 'histogram minmax average percentile'
