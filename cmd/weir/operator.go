package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"weir"
	"weir/console"
	"weir/console/access"
)

type operatorCommand struct {
	Add      operatorAddCommand      `cmd:"" help:"Add an operator, who may log in to the console." example:"weir operator add ann --role act"`
	List     operatorListCommand     `cmd:"" help:"Show the operators." example:"weir operator list"`
	Remove   operatorRemoveCommand   `cmd:"" help:"Remove an operator. Their sessions end at once." example:"weir operator remove ann"`
	Role     operatorRoleCommand     `cmd:"" help:"Give an operator another role. It holds at once." example:"weir operator role ann admin"`
	Sessions operatorSessionsCommand `cmd:"" help:"Show the open sessions of an operator." example:"weir operator sessions ann"`
	Logout   operatorLogoutCommand   `cmd:"" help:"End the sessions of an operator." example:"weir operator logout ann"`
	Password operatorPasswordCommand `cmd:"" help:"Change the password of an operator. Their sessions end at once." example:"weir operator password admin"`
}

type operatorAddCommand struct {
	target
	passwordFlags
	Role string `default:"view" enum:"view,act,admin" placeholder:"ROLE" help:"What the operator may do: view, act or admin (${default})."`
	JSON bool   `name:"json" help:"Print the operator as JSON."`
	Name string `arg:"" help:"The name of the operator: a-z, 0-9, '.', '_', '-' and '@'."`
}

func (c *operatorAddCommand) Validate() error { return access.CheckName(c.Name) }

func (c *operatorAddCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (v access.OperatorView,
		err error) {
		password, err := c.read(t, c.Name)
		if err != nil {
			return v, err
		}
		return console.OperatorAddCall.Ask(ctx, client, console.NewOperator{Name: c.Name, Role: access.Role(c.Role),
			Password: password})
	}, func(v *access.OperatorView) {
		fmt.Fprintf(t.out, "added %s with the role %s\n", printable(v.Name), v.Role)
	})
}

type operatorListCommand struct {
	target
	JSON bool `name:"json" help:"Print the operators as JSON."`
}

func (c *operatorListCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.OperatorListCall.With(console.None{}), func(all *console.OperatorList) {
		rows := table{heads: []string{"operator", "role", "added", "changed", "sessions"}}
		for _, o := range all.Operators {
			rows.row(text(o.Name), text(string(o.Role)), text(moment(o.Made)), text(moment(o.Changed)),
				number(o.Sessions))
		}
		t.write(&rows)
	})
}

// named is what a command takes that does something to one operator or one token.
type named struct {
	target
	JSON bool   `name:"json" help:"Print the result as JSON."`
	Name string `arg:"" help:"The name."`
}

// removes makes a call that ends something, and says so in a word.
func (c *named) removes(t *terminal, word string,
	call *console.CallOf[console.Name, console.Removed]) error {
	return ask(t, c.target, c.JSON, call.With(console.Name{Name: c.Name}),
		func(r *console.Removed) { fmt.Fprintf(t.out, "%s %s\n", word, printable(r.Removed)) })
}

type operatorRemoveCommand struct{ named }

func (c *operatorRemoveCommand) Run(t *terminal) error {
	return c.removes(t, "removed", console.OperatorRemoveCall)
}

type operatorRoleCommand struct {
	named
	Role string `arg:"" enum:"view,act,admin" help:"What the operator may do: view, act or admin."`
}

func (c *operatorRoleCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.OperatorRoleCall.With(console.OperatorRole{Name: c.Name,
		Role: access.Role(c.Role)}), func(v *access.OperatorView) {
		fmt.Fprintf(t.out, "%s has the role %s now\n", printable(v.Name), v.Role)
	})
}

type operatorSessionsCommand struct{ named }

func (c *operatorSessionsCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.OperatorSessionsCall.With(console.Name{Name: c.Name}),
		func(all *console.SessionList) {
			if len(all.Sessions) == 0 {
				fmt.Fprintln(t.out, printable(c.Name), "has no open session")
				return
			}
			rows := table{heads: []string{"session", "from", "logged in", "last used", "ends"}}
			for _, s := range all.Sessions {
				rows.row(text(s.ID), text(s.Source), text(moment(s.Made)), text(moment(s.Seen)), text(moment(s.Until)))
			}
			t.write(&rows)
		})
}

type operatorLogoutCommand struct {
	named
	Session string `placeholder:"ID" help:"Only this one, as weir operator sessions shows it."`
}

func (c *operatorLogoutCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.OperatorLogOutCall.With(console.SessionEnd{Name: c.Name, ID: c.Session}),
		func(r *console.SessionsEnded) {
			sessions := "sessions"
			if r.Ended == 1 {
				sessions = "session"
			}
			fmt.Fprintf(t.out, "ended %d %s of %s\n", r.Ended, sessions, printable(c.Name))
		})
}

type operatorPasswordCommand struct {
	named
	passwordFlags
}

func (c *operatorPasswordCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (r console.Changed, err error) {
		password, err := c.read(t, c.Name)
		if err != nil {
			return r, err
		}
		return console.OperatorPasswordCall.Ask(ctx, client, console.OperatorPassword{Name: c.Name, Password: password})
	}, func(r *console.Changed) { fmt.Fprintf(t.out, "changed the password of %s\n", printable(r.Changed)) })
}

type tokenCommand struct {
	Add    tokenAddCommand    `cmd:"" help:"Make a token for a program, and show it once." example:"weir token add backup-check --role view --for 30d"`
	List   tokenListCommand   `cmd:"" help:"Show the tokens, without their secrets." example:"weir token list"`
	Revoke tokenRevokeCommand `cmd:"" help:"End a token at once." example:"weir token revoke backup-check"`
}

type tokenAddCommand struct {
	target
	Role string        `default:"view" enum:"view,act,admin" placeholder:"ROLE" help:"What the token may be used for: view, act or admin (${default})."`
	For  weir.Duration `default:"90d" placeholder:"TIME" help:"How long the token is good, up to 10 years; 0 for until it is revoked (${default})."`
	JSON bool          `name:"json" help:"Print the token as JSON."`
	Name string        `arg:"" help:"The name of the token: a-z, 0-9, '.', '_', '-' and '@'."`
}

func (c *tokenAddCommand) Validate() error { return access.CheckName(c.Name) }

func (c *tokenAddCommand) Run(t *terminal) error {
	signal.Ignore(syscall.SIGPIPE) // a token that nobody has seen is revoked
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx := context.Background()
	k, err := console.TokenAddCall.Ask(ctx, client, console.NewToken{Name: c.Name, Role: access.Role(c.Role),
		For: c.For})
	if err != nil {
		return err
	}
	if err = c.show(t, &k); err == nil {
		return nil
	}
	if _, revoked := console.TokenRevokeCall.Ask(ctx, client, console.Name{Name: c.Name}); revoked != nil {
		return fmt.Errorf("the token cannot be shown: %w; nor can it be revoked: %w (write weir token revoke %s)",
			err, revoked, c.Name)
	}
	return fmt.Errorf("the token cannot be shown, and is revoked: %w", err)
}

// show shows a new token. The secret alone goes to standard output, so that it can be sent to a file.
func (c *tokenAddCommand) show(t *terminal, k *console.MadeToken) error {
	if c.JSON {
		return t.json(k)
	}
	until := "until it is revoked"
	if !k.Until.IsZero() {
		until = "until " + moment(k.Until)
	}
	fmt.Fprintf(t.err, "the token %s has the role %s, %s. It is not shown again:\n", printable(k.Name), k.Role, until)
	_, err := fmt.Fprintln(t.out, k.Secret)
	return err
}

type tokenListCommand struct {
	target
	JSON bool `name:"json" help:"Print the tokens as JSON."`
}

func (c *tokenListCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.TokenListCall.With(console.None{}), func(all *console.TokenList) {
		if len(all.Tokens) == 0 {
			fmt.Fprintln(t.out, "there are no tokens")
			return
		}
		rows := table{heads: []string{"token", "role", "by", "made", "until", "last used"}}
		for _, k := range all.Tokens {
			rows.row(text(k.Name), text(k.Role), text(k.By), text(moment(k.Made)), text(moment(k.Until)),
				text(moment(k.Used)))
		}
		t.write(&rows)
	})
}

type tokenRevokeCommand struct{ named }

func (c *tokenRevokeCommand) Run(t *terminal) error {
	return c.removes(t, "revoked", console.TokenRevokeCall)
}
