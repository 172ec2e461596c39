package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/console"
	"weir/internal/tabular"
)

type userCommand struct {
	Add     userAddCommand     `cmd:"" help:"Add a user who may send mail." example:"weir user add ann --contact ann@example.org"`
	Import  userImportCommand  `cmd:"" help:"Add users and change contacts from a list: CSV or LDIF." example:"weir user import people.csv --dry-run"`
	List    userListCommand    `cmd:"" help:"Show the users." example:"weir user list"`
	Show    userShowCommand    `cmd:"" help:"Show a user and their state in each throttle." example:"weir user show ann"`
	History userHistoryCommand `cmd:"" help:"Show the last hour of a user: working set, slack, queue and reach." example:"weir user history ann"`
	Stop    userStopCommand    `cmd:"" help:"Stop a user: new messages are refused, waiting messages are held." example:"weir user stop ann --why 'password stolen'"`
	Resume  userResumeCommand  `cmd:"" help:"Let a stopped user send again. What is held stays held: see weir queue release." example:"weir user resume ann"`
	Passwd  userPasswdCommand  `cmd:"" help:"Change a user's password." example:"weir user passwd ann"`
	Set     userSetCommand     `cmd:"" help:"Change a user's data and personal limits." example:"weir user set ann contact=ann@example.net"`
	Remove  userRemoveCommand  `cmd:"" help:"Remove a user. Their waiting messages are held." example:"weir user remove ann"`
}

type userFlags struct {
	target
	JSON bool   `name:"json" help:"Print the result as JSON."`
	Name string `arg:"" help:"The user: a login name, or the address of a client that sends without one."`
}

func (c *userFlags) Validate() error {
	if c.Name == "" {
		return errors.New("which user?")
	}
	return nil
}

// maySend is what is said of a user who was added.
const maySend = "may send mail"

func (c *userFlags) change(t *terminal, call func(*console.Client, context.Context) (console.UserView, error),
	done string) error {
	return ask(t, c.target, c.JSON, call, func(u *console.UserView) {
		if done == maySend && u.Stopped() {
			done = "is stopped until somebody lets them send again (weir user resume " + shellWord(u.Name) + ")"
		}
		fmt.Fprintf(t.out, "%s %s\n", printable(u.Name), done)
		if u.Never != "" {
			fmt.Fprintf(t.out, "warning: no mail will ever come from %s: %s\n", printable(u.Name), u.Never)
		}
	})
}

type passwordFlags struct {
	PasswordFile string `placeholder:"FILE" help:"Read the password from a file. Default: ask for it on a terminal, else read it from standard input."`
}

type userAddCommand struct {
	userFlags
	passwordFlags
	Contact    string   `placeholder:"ADDRESS" required:"" help:"Where weir tells the user that their mail is held. Use a mailbox that does not depend on weir."`
	Sender     []string `placeholder:"ADDRESS" sep:"," help:"An address that the user may send from. May be repeated. Default: any."`
	Language   string   `placeholder:"LANGUAGE" help:"The language of notices and of the user's page: en, de. Default: that of self_service.language, and on the page that of the browser."`
	NoPassword bool     `help:"Add the user without a password: they cannot log in."`
}

func (c *userAddCommand) Validate() error {
	if c.NoPassword && c.PasswordFile != "" {
		return errors.New("--no-password and --password-file do not go together")
	}
	return c.userFlags.Validate()
}

func (c *userAddCommand) Run(t *terminal) error {
	return c.change(t, func(client *console.Client, ctx context.Context) (added console.UserView, err error) {
		u := console.NewUser{Name: c.Name, Contact: c.Contact, Senders: c.Sender, Language: c.Language}
		if !c.NoPassword {
			if u.Password, err = c.read(t, c.Name); err != nil {
				return added, err
			}
		}
		return console.UserAddCall.Ask(ctx, client, u)
	}, maySend)
}

type userListCommand struct {
	target
	Stopped bool `help:"Show only stopped users, including clients that send without a login."`
	Limit   int  `placeholder:"N" default:"1000" help:"Show at most this many; 0 for all. Default: 1000."`
	JSON    bool `name:"json" help:"Print them as JSON."`
}

func (c *userListCommand) Validate() error { return checkLimit(c.Limit) }

func (c *userListCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (all console.UserPage,
		err error) {
		all.Users, err = pages(c.Limit, console.MaxUserPage, func(n int) ([]console.UserView, bool, error) {
			page, err := console.UserListCall.Ask(ctx, client, console.UserQuery{After: all.Next, Stopped: c.Stopped,
				Limit: n})
			all.Next = page.Next
			return page.Users, page.Next != "", err
		})
		return all, err
	}, func(all *console.UserPage) { t.users(all, c.Stopped) })
}

func (t *terminal) users(all *console.UserPage, stopped bool) {
	switch {
	case len(all.Users) > 0:
	case stopped:
		fmt.Fprintln(t.out, "nobody is stopped")
		return
	default:
		fmt.Fprintln(t.out, "there are no users (weir user add makes one)")
		return
	}
	rows := table{heads: []string{"user", "state", "waiting", "contact", "senders", "own limits", "changed"}}
	for _, u := range all.Users {
		state, tint := stateOf(&u)
		waiting := 0
		for _, s := range u.Throttles {
			waiting += s.Waiting
		}
		rows.row(text(u.Name), cell{text: state, tint: tint}, number(waiting), text(u.Contact),
			text(strings.Join(u.Senders, ", ")), text(u.Limits), text(moment(u.Changed)))
	}
	t.write(&rows)
	if all.Next != "" {
		fmt.Fprintln(t.out, "and more (--limit 0 shows all)")
	}
}

// stateOf is the state of a user in a few words.
func stateOf(u *console.UserView) (string, tabular.Tint) {
	if u.Disabled {
		return "disabled: what waits is held", tabular.Warn
	}
	for _, s := range u.Throttles {
		if s.Stopped && s.Shadow {
			return "would be stopped (shadow)", tabular.Warn
		}
		if s.Stopped && !s.Since.IsZero() {
			return "stopped since " + moment(s.Since), tabular.Bad
		}
	}
	switch {
	case u.Stopped():
		return "stopped", tabular.Bad
	case u.Made.IsZero():
		return "no user of weir's", tabular.Plain
	}
	return "sends", tabular.Plain
}

type userShowCommand struct{ userFlags }

func (c *userShowCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.UserShowCall.With(console.Name{Name: c.Name}), t.user)
}

func (t *terminal) user(u *console.UserView) {
	line := func(name, value string) {
		fmt.Fprintf(t.out, "%-12s %s\n", name+":", value)
	}
	state, tint := stateOf(u)
	line("user", printable(u.Name))
	line("state", t.paint(tint, state))
	if u.Never != "" {
		line("warning", t.paint(tabular.Warn, "no mail ever comes from here: "+u.Never))
	}
	if !u.Made.IsZero() {
		line("contact", printable(cmp.Or(u.Contact, "none: nobody is told when they are stopped")))
		line("senders", printable(cmp.Or(strings.Join(u.Senders, ", "), "any")))
		if u.Language != "" {
			line("language", printable(u.Language))
		}
		if !u.LogIn {
			line("password", "none in weir")
		}
		line("own limits", printable(cmp.Or(u.Limits, "none")))
		line("added", moment(u.Made))
		line("changed", moment(u.Changed))
	}
	if len(u.Throttles) == 0 {
		return
	}
	fmt.Fprintln(t.out)
	rows := table{heads: []string{"throttle", "mode", "state", "waiting", "slack", "mslack", "working set", "limits"}}
	for _, s := range u.Throttles {
		state := text("sends")
		switch {
		case s.Stopped:
			state = cell{text: "stopped", tint: tabular.Bad}
			if !s.Resume.IsZero() {
				state.text = "stopped, tried again " + moment(s.Resume)
			}
		case s.Slow:
			state = cell{text: "slow motion", tint: tabular.Warn}
		}
		rows.row(text(s.Throttle), mode(s.Shadow), state, number(s.Waiting), number(s.Slack), number(s.MSlack),
			number(s.WorkingSet), text(s.Limits))
	}
	t.write(&rows)
}

type userStopCommand struct {
	userFlags
	Why string `placeholder:"TEXT" help:"The reason. The user is told, and it is in the audit log."`
}

func (c *userStopCommand) Run(t *terminal) error {
	return c.change(t, console.UserStopCall.With(console.UserStop{Name: c.Name, Why: c.Why}), "is stopped")
}

type userResumeCommand struct {
	userFlags
	Slow bool `help:"In slow motion at first: without credit, which comes back slowly."`
}

func (c *userResumeCommand) Run(t *terminal) error {
	how := "may send again"
	if c.Slow {
		how += ", slowly"
	}
	how += fmt.Sprintf("; what is held stays held (weir queue list --user %s)", printable(c.Name))
	return c.change(t, console.UserResumeCall.With(console.UserResume{Name: c.Name, Slow: c.Slow}), how)
}

type userPasswdCommand struct {
	userFlags
	passwordFlags
}

func (c *userPasswdCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.Changed, error) {
		password, err := c.read(t, c.Name)
		if err != nil {
			return console.Changed{}, err
		}
		return console.UserPasswdCall.Ask(ctx, client, console.UserPassword{Name: c.Name, Password: password})
	}, func(*console.Changed) { fmt.Fprintf(t.out, "the password of %s is changed\n", printable(c.Name)) })
}

type userRemoveCommand struct {
	userFlags
	Yes bool `short:"y" help:"Do not ask for confirmation."`
}

func (c *userRemoveCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (r console.Removed, err error) {
		if !c.Yes {
			if err := t.confirm("remove the user " + printable(c.Name) + "?"); err != nil {
				return r, err
			}
		}
		return console.UserRemoveCall.Ask(ctx, client, console.Name{Name: c.Name})
	}, func(*console.Removed) {
		fmt.Fprintf(t.out,
			"%s is no longer a user; what waited in their delay queue is held (weir queue list --user %[1]s)\n",
			printable(c.Name))
	})
}
