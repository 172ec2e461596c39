package main

import (
	"io"

	kongcompletion "github.com/jotaen/kong-completion"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// completionScripts let a shell ask weir how a line can go on. It answers with commands, flags and their values; where
// there are none, the shell offers files.
var completionScripts = map[string]string{
	"bash": `# bash completion for weir, made by "weir completion bash".
complete -o default -o bashdefault -C weir weir
`,
	"zsh": `#compdef weir
# zsh completion for weir, made by "weir completion zsh".
_weir() {
	local -a offered=("${(@f)$(COMP_LINE="${(j: :)words[1,CURRENT]}" weir)}")
	if [[ -n $offered ]]; then
		compadd -a offered
	else
		_files
	fi
}
# The file is either loaded as the function _weir, or read by source.
if [[ $funcstack[1] == _weir ]]; then
	_weir "$@"
else
	compdef _weir weir
fi
`,
	"fish": `# fish completion for weir, made by "weir completion fish".
function __weir_offer
    set -lx COMP_LINE (commandline -cp)
    set -l offered (weir)
    if set -q offered[1]
        printf '%s\n' $offered
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c weir -f -a '(__weir_offer)'
`,
}

// Run prints the script of a shell.
func (c *completionCommand) Run(t *terminal) error {
	_, err := io.WriteString(t.out, completionScripts[c.Shell])
	return err
}

// completionVariable has the line up to the cursor when a shell asks how it can go on.
const completionVariable = "COMP_LINE"

// complete tells a shell how the line in COMP_LINE can go on.
func complete(t *terminal) int {
	parser, err := newParser(t)
	if err != nil {
		return exitFailed
	}
	kongcompletion.Register(parser, kongcompletion.WithExitFunc(func(int) {}))
	return exitOK
}
