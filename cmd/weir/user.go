package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
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

type userHistoryCommand struct {
	userFlags
	Last int `placeholder:"N" default:"20" help:"Show at most this many changes of each throttle, the latest last; 0 for all that are kept. Default: 20."`
}

func (c *userHistoryCommand) Validate() error {
	if err := checkLimit(c.Last); err != nil {
		return err
	}
	return c.userFlags.Validate()
}

func (c *userHistoryCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.UserHistoryCall.With(console.Name{Name: c.Name}),
		func(h *console.UserHistory) { t.userHistory(h, c.Last) })
}

// userColumns are what is shown of a user's past, by kind of throttle.
var userColumns = map[string][]struct {
	head string
	of   console.Measure
}{
	"mail": {{"waiting", console.Waiting}, {"stop above", console.StopAbove}, {"slack", console.Slack},
		{"mslack", console.MSlack}, {"working set", console.WorkingSet}},
	"reach": {{"new in an hour", console.NewInHour}, {"limit", console.HourLimit}, {"new in a day", console.NewInDay},
		{"limit", console.DayLimit}, {"new in a week", console.NewInWeek}, {"limit", console.WeekLimit}},
}

func (t *terminal) userHistory(h *console.UserHistory, last int) {
	fmt.Fprintf(t.out, "%s since %s, until %s, in recipients\n", printable(h.User), moment(h.Since), moment(h.At))
	if len(h.Throttles) == 0 {
		fmt.Fprintln(t.out, "no throttle knows this user yet")
	}
	for i := range h.Throttles {
		s := &h.Throttles[i]
		fmt.Fprintf(t.out, "\n%s (%s)\n", printable(s.Name), s.Kind)
		rows := table{heads: []string{"when", "state"}}
		for _, c := range userColumns[s.Kind] {
			if s.Columns[c.of] != nil {
				rows.heads = append(rows.heads, c.head)
			}
		}
		from := 0
		if last > 0 {
			from = max(0, len(s.At)-last)
		}
		for k := from; k < len(s.At); k++ {
			state := "sends"
			switch {
			case at(s, console.UserStopped, k) == 1:
				state = "stopped"
			case at(s, console.UserFlagged, k) == 1:
				state = "flagged"
			}
			row := []cell{text(moment(s.Time(k))), text(state)}
			for _, c := range userColumns[s.Kind] {
				if s.Columns[c.of] == nil {
					continue
				}
				v, shown := at(s, c.of, k), ""
				if !math.IsNaN(v) {
					shown = strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
				}
				row = append(row, cell{text: shown, right: true})
			}
			rows.row(row...)
		}
		t.write(&rows)
	}
}

// at is a value of a series, or NaN.
func at(s *console.Series, m console.Measure, k int) float64 {
	if v := s.Columns[m]; k < len(v) {
		return float64(v[k])
	}
	return math.NaN()
}

type userSetCommand struct {
	userFlags
	Changes []string `arg:"" name:"change" help:"contact=ADDRESS, language=de (empty: the usual one), senders=A,B (senders+=C and senders-=A), disabled=true, or a personal limit, as in the configuration of the throttle: stop=50, rate=5/m, exempt=true. An empty value removes a personal limit: stop="`
}

func (c *userSetCommand) Validate() error {
	if _, err := changeOf(c.Name, c.Changes); err != nil {
		return err
	}
	return c.userFlags.Validate()
}

func (c *userSetCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (u console.UserView, err error) {
		change, err := changeOf(c.Name, c.Changes)
		if err != nil {
			return u, err
		}
		return console.UserSetCall.Ask(ctx, client, change)
	}, t.user)
}

func changeOf(name string, changes []string) (console.UserChange, error) {
	u := console.UserChange{Name: name}
	seen := map[string]bool{}
	for _, text := range changes {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return u, fmt.Errorf("%.80q is not a change (write stop=50)", text)
		}
		if seen[key] {
			return u, fmt.Errorf("%s: given twice", key)
		}
		seen[key] = true
		switch key {
		case "contact":
			u.Contact = &value
		case "language":
			u.Language = &value
		case "senders":
			all := listOf(value)
			u.Senders = &all
		case "senders+":
			u.AddSenders = listOf(value)
		case "senders-":
			u.RemoveSenders = listOf(value)
		case "disabled":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return u, fmt.Errorf("disabled: %.40q is neither true nor false", value)
			}
			u.Disabled = &on
		case "password":
			return u,
				errors.New("password: everybody could read it in the list of processes (weir user passwd asks for it)")
		default:
			if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
				return u, fmt.Errorf("%.80q is not the name of a limit (write stop=50)", key)
			}
			if u.Limits == nil {
				u.Limits = map[string]string{}
			}
			u.Limits[key] = value
		}
	}
	return u, nil
}

// listOf splits a list at commas.
func listOf(text string) []string {
	list := []string{}
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}
