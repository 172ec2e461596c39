package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"weir"
	"weir/config"
)

// The codes that commands exit with.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line. Further commands are added here, one field each.
type cli struct {
	Serve    serveCommand    `cmd:"" help:"Run weir." under:"Start" example:"weir serve -c /etc/weir/weir.yaml"`
	Demo     demoCommand     `cmd:"" help:"Watch weir work: people and a flood in front of a small service. Needs no configuration." under:"Start"`
	Init     initCommand     `cmd:"" help:"Write a configuration: ask a few questions, or take flags." under:"Start" example:"weir init --for api --upstream http://127.0.0.1:3000 --limit 100/1m"`
	Check    checkCommand    `cmd:"" help:"Check a configuration and report every error in it." under:"Start" example:"weir check /etc/weir/weir.yaml"`
	Reload   reloadCommand   `cmd:"" help:"Make a running weir read its configuration again. A reload applies completely or not at all." under:"Start" example:"weir reload"`
	Status   statusCommand   `cmd:"" help:"Show what a running weir does." under:"Watch" example:"weir status"`
	Top      topCommand      `cmd:"" help:"Watch a running weir: what passes each gate and throttle now, and who is held back." under:"Watch" example:"weir top"`
	Capacity capacityCommand `cmd:"" help:"Show how full gates with a limited capacity are, what a stamp costs, and who pays." under:"Watch" example:"weir capacity"`
	Refusals refusalsCommand `cmd:"" help:"Show the last refusals, with the rule and its figures." under:"Watch" example:"weir refusals --throttle plans"`
	Why      whyCommand      `cmd:"" help:"Explain what would happen to a request, or to a message, now. Nothing is charged." under:"Watch" example:"weir why GET /v1/things --account acme"`
	Account  accountCommand  `cmd:"" help:"Show or reset what an account has used, and set limits of single accounts." under:"Watch"`
	Ban      banCommand      `cmd:"" help:"Show or change the block list: clients and networks that are not served." under:"Bans"`
	Queue    queueCommand    `cmd:"" help:"Show the mail that waits, and release, delete or retry it." under:"Mail"`
	User     userCommand     `cmd:"" help:"Show or change who may send mail." under:"Mail"`
	Reach    reachCommand    `cmd:"" help:"Show or change who is flagged for writing to too many new people." under:"Mail"`
	Audit    auditCommand    `cmd:"" help:"Show who did what, when and from where, including what weir did by itself." under:"Watch" example:"weir audit --since 1d --what ban-add"`
	Notify   notifyCommand   `cmd:"" help:"Show or test who gets notices of attacks, stopped users and the like." under:"Watch"`
	Operator operatorCommand `cmd:"" help:"Show or change who may log in to the console." under:"Console"`
	Token    tokenCommand    `cmd:"" help:"Show, make or revoke tokens, with which programs use the console." under:"Console"`
	Backup   backupCommand   `cmd:"" help:"Copy the store of a running weir to a folder." under:"Keep it running" example:"weir backup /var/backups/weir"`
	Store    storeCommand    `cmd:"" help:"Check the store of a stopped weir, or recover what is left of a damaged one." under:"Keep it running"`
	Shadow   shadowCommand   `cmd:"" help:"Switch throttles to shadow, where they count and let everything pass, or back." under:"Watch"`
	Plan     planCommand     `cmd:"" help:"Calculate what a mechanism needs before you configure it." under:"Look before you throttle"`
	Stamp    stampCommand    `cmd:"" help:"Pay with CPU time: solve a gate's challenge, or put stamps into a message." under:"Pay with CPU time"`
	Simulate simulateCommand `cmd:"" help:"Look before you throttle: see what weir would do to a mail log, a virus or a flood." under:"Look before you throttle"`
	Bench    benchCommand    `cmd:"" help:"Compare weir with other tools on this machine." under:"Look before you throttle"`
	Farm     farmCommand     `cmd:"" help:"Take this node out of its farm, or make the farm forget a lost node." under:"Keep it running"`
	XDP      xdpCommand      `cmd:"" name:"xdp" help:"Show or remove packet limits in the kernel." under:"Keep it running"`
	Version  versionCommand  `cmd:"" help:"Show the version." under:"About weir" example:"weir version --json"`

	Upgrade    upgradeCommand    `cmd:"" help:"Let the binary that was installed over a running weir take its place. No connection is refused." under:"Keep it running" example:"weir upgrade"`
	Completion completionCommand `cmd:"" help:"Print a script that lets a shell complete weir's commands and flags." under:"About weir" example:"weir completion bash > /etc/bash_completion.d/weir"`
	Man        manCommand        `cmd:"" hidden:"" help:"Write the manual pages to a folder, for packages."`

	ShowVersion kong.VersionFlag `name:"version" help:"Show the version."`
}

// countFlag reads every flag that is a whole number, so that all of them accept 1e6.
func countFlag(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("number", &text); err != nil {
		return err
	}
	n, err := weir.ParseCount(text)
	if err == nil && target.OverflowInt(n) {
		err = &weir.FieldError{Msg: fmt.Sprintf("%q is too large", text)}
	}
	if err == nil {
		target.SetInt(n)
	}
	return err
}

// errTold is returned by a command that has printed its error itself.
var errTold = errors.New("told")

// run parses the arguments, runs the command and returns its exit code.
func run(args []string, t *terminal) int {
	watched := *t
	watched.out = &output{Writer: t.out}
	t = &watched
	if os.Getenv(completionVariable) != "" {
		return complete(t)
	}
	parser, err := parserFor(grammar(args), t)
	if err != nil {
		fmt.Fprintln(t.err, "weir:", err)
		return exitUsage
	}
	command, err := parser.Parse(args)
	if err != nil {
		refuse(err, t.err)
		return exitUsage
	}
	err = command.Run()
	if err == nil {
		err = t.unwritten()
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errTold):
	default:
		t.fail(err)
	}
	return exitFailed
}

// refuse says why arguments cannot be understood.
func refuse(err error, to io.Writer) { fmt.Fprintf(to, "weir: %s (%s)\n", err, usageHint(err)) }

// usageHint says what to do about arguments that cannot be understood. check takes a file as it is, and people expect
// that of other commands.
func usageHint(err error) string {
	file, found := strings.CutPrefix(err.Error(), "unexpected argument ")
	if found && (strings.HasSuffix(file, ".yaml") || strings.HasSuffix(file, ".yml")) {
		return "write -c " + file
	}
	return "see weir --help"
}

// newParser reads all commands.
func newParser(t *terminal) (*kong.Kong, error) { return parserFor(&cli{}, t) }

// grammar is the part of the command line that arguments need: with one command instead of all of them, a short command
// takes two thirds of the time. Arguments that do not begin with a command need all of it, and so do the manual pages.
func grammar(args []string) any {
	if len(args) == 0 || args[0] == "man" {
		return &cli{}
	}
	var fields []reflect.StructField
	found := false
	for all, i := reflect.TypeFor[cli](), 0; i < all.NumField(); i++ {
		f := all.Field(i)
		if _, command := f.Tag.Lookup("cmd"); command {
			if cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)) != args[0] {
				continue
			}
			found = true
		}
		fields = append(fields, f)
	}
	if !found {
		return &cli{}
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

func parserFor(grammar any, t *terminal) (*kong.Kong, error) {
	parser, err := kong.New(grammar,
		kong.Name("weir"),
		kong.Description("A throttling layer: people get through, a flood has to pay, wait or go away."),
		kong.Writers(t.out, t.err),
		kong.Exit(t.exit), // after --help and --version
		kong.Vars{"version": versionOf().String()},
		kong.Bind(t),
		kong.TypeMapper(reflect.TypeFor[int](), kong.MapperFunc(countFlag)),
		kong.TypeMapper(reflect.TypeFor[int64](), kong.MapperFunc(countFlag)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
	)
	if err == nil {
		group(parser.Model.Node)
		parser.Model.HelpFlag.Help = "Show help."
	}
	return parser, err
}

// exit ends the process.
func (t *terminal) exit(code int) {
	if err := t.unwritten(); err != nil && code == exitOK {
		t.fail(err)
		code = exitFailed
	}
	os.Exit(code)
}

// fail prints an error; for a configuration, every error with its line.
func (t *terminal) fail(err error) {
	if mistakes, ok := errors.AsType[config.Errors](err); ok {
		fmt.Fprint(t.err, mistakes.Explain())
		return
	}
	fmt.Fprintln(t.err, "weir:", strings.TrimSpace(err.Error()))
}

// group puts the commands of a model under the headings that their tags name, and adds the examples, which can be
// pasted.
func group(model *kong.Node) {
	groups := map[string]*kong.Group{}
	for _, top := range model.Children {
		title := top.Tag.Get("under")
		if title == "" {
			continue
		}
		if groups[title] == nil {
			groups[title] = &kong.Group{Key: title, Title: title + ":"}
		}
		for _, leaf := range leavesOf(top) {
			leaf.Group, leaf.Detail = groups[title], "Example:\n\n    "+leaf.Tag.Get("example")
		}
	}
}

// leavesOf are the commands below a command, or itself.
func leavesOf(node *kong.Node) []*kong.Node {
	if node.Leaf() {
		return []*kong.Node{node}
	}
	return node.Leaves(true)
}

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
