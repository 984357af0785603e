# Completion of cfx for fish; nodes are those of the program that the line names.

function __cfx_model
    for word in (commandline -opc)
        string match -qr '\.(pt2|fx)$' -- $word; and test -f $word; and echo $word; and return
    end
end

function __cfx_nodes
    set -l model (__cfx_model)
    test -n "$model"; or return
    cfx show $model --as graph 2>/dev/null | string replace -rf '^ *%([A-Za-z_0-9]+) .*' '$1'
end

function __cfx_options
    set -l words (commandline -opc)
    test (count $words) -gt 1; or return
    cfx $words[2] --help 2>/dev/null | string replace -rf '^  (-[-a-z]+).*' '$1'
end

complete -c cfx -n __fish_use_subcommand -f -a 'show run compare convert decompose draw bench ops'
complete -c cfx -n 'string match -qr "^-" -- (commandline -ct)' -a '(__cfx_options)'
for option in node around path tap focus
    complete -c cfx -l $option -x -a '(__cfx_nodes)'
end
complete -c cfx -l as -x -a 'tree graph table code readable program json'
complete -c cfx -l log -x -a 'api aten'
