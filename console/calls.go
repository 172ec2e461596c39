package console

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"reflect"
	"strings"

	"weir/console/access"
	"weir/store"
)

// Prefix is where the API begins.
const Prefix = "/api/v1"

// A Call is one thing that weir can be asked for: by the API, by a command, and by a form of a page. All three use the
// table that Calls returns.
type Call struct {
	Method string // GET, POST or DELETE
	Path   string // below Prefix
	Role   access.Role
	// The commands that make it, as in "ban add". One that needs a flag is written with it: "reload --farm".
	Commands []string
	Summary  string       // what it does, in a sentence
	In       reflect.Type // a struct: parameters of the query, or the body of a POST
	Out      reflect.Type
	// Local calls are for the control socket alone.
	Local bool
	// The answer has many values, one in a line, while something goes on.
	Stream bool

	most   int64 // bytes of a body; 0: maxBody
	shows  bool  // its answer is shown once, on a page of its own: it has a secret
	logs   bool  // it writes the audit log by itself, together with what it does
	run    func(q *Request, in any) (any, error)
	stream func(q *Request, in any, write func(any) error) error
	said   func(in, out any) string
}

// Name is the name of the call for forms and for the OpenAPI document, as in ban-add.
func (c *Call) Name() string {
	return strings.ReplaceAll(strings.ReplaceAll(c.Commands[0], " --", "-"), " ", "-")
}

// Acts reports whether the call changes something.
func (c *Call) Acts() bool { return c.Method != http.MethodGet && c.Role != access.View }

// Calls returns the table of calls.
func Calls() []*Call {
	return []*Call{
		&StatusCall.Call, &WhyAskCall.Call, &AccountGetCall.Call, &AccountResetCall.Call, &ShadowCall.Call,
		&ReloadCall.Call, &OverviewGetCall.Call, &RefusalsListCall.Call, &CapacityCall.Call, &LimitListCall.Call,
		&LimitSetCall.Call, &LimitRemoveCall.Call, &BansCall.Call, &BanAddCall.Call, &BanRemoveCall.Call,
		&BlockListsCall.Call, &listImport.Call, &QueueListCall.Call, &QueueShowCall.Call, &QueueReleaseCall.Call,
		&QueueDeleteCall.Call, &QueueRetryCall.Call, &mailBulk.Call, &MailTrackCall.Call, &backupMake.Call,
		&UserListCall.Call,
		&UserAddCall.Call, &UserShowCall.Call, &UserHistoryCall.Call, &UserRemoveCall.Call, &UserSetCall.Call,
		&UserPasswdCall.Call,
		&UserStopCall.Call, &UserResumeCall.Call, &ReachListCall.Call, &ReachShowCall.Call, &ReachFlagCall.Call,
		&ReachClearCall.Call, &ReachUsualCall.Call, &FarmReloadCall.Call, &FarmShadowCall.Call, &FarmForgetCall.Call,
		&FarmLeaveCall.Call, &AuditListCall.Call, &OperatorListCall.Call, &OperatorAddCall.Call,
		&OperatorRemoveCall.Call,
		&OperatorRoleCall.Call, &OperatorSessionsCall.Call, &OperatorLogOutCall.Call, &OperatorPasswordCall.Call,
		&TokenListCall.Call, &TokenAddCall.Call, &TokenRevokeCall.Call, &NotifyListCall.Call, &NotifyTestCall.Call,
		&DemoShowCall.Call, &DemoFloodCall.Call, &DemoPayCall.Call, &DemoStopCall.Call,
	}
}

// A Request is a call that somebody makes.
type Request struct {
	context.Context
	Who     access.Identity
	From    string     // where it comes from, for the audit log
	Source  netip.Addr // the same as an address, where it has one
	backend Backend
	serving *api

	before  any    // what was there, for the audit log
	subject string // the user or account that it concerns, for the audit log
	did     string // what it does, for the audit log, where one call may do several things; empty: its name
	looked  bool   // it has only looked, and the audit log is not written
}

// by is who asks, as the backend is told.
func (q *Request) by() string { return q.Who.Name }

// A CallOf is a Call with its types.
type CallOf[In, Out any] struct{ Call }

// define makes a call. The names of its commands are separated by commas.
func define[In, Out any](method, path string, role access.Role, commands, summary string,
	f func(*Request, *In) (Out, error)) *CallOf[In, Out] {
	return &CallOf[In, Out]{Call{Method: method, Path: path, Role: role, Commands: strings.Split(commands, ", "),
		Summary: summary, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](),
		run: func(q *Request, in any) (any, error) { return f(q, in.(*In)) }}}
}

// upTo sets how many bytes the body may have.
func (c *CallOf[In, Out]) upTo(most int64) *CallOf[In, Out] {
	c.most = most
	return c
}

// saying sets what a page says after the call.
func (c *CallOf[In, Out]) saying(f func(in *In, out Out) string) *CallOf[In, Out] {
	c.said = func(in, out any) string { return f(in.(*In), out.(Out)) }
	return c
}

// logged marks a call that writes the audit log by itself.
func (c *CallOf[In, Out]) logged() *CallOf[In, Out] {
	c.logs = true
	return c
}

// once marks a call whose answer has a secret. A form shows it on a page of its own: in an address it would be kept by
// browsers and proxies.
func (c *CallOf[In, Out]) once() *CallOf[In, Out] {
	c.shows = true
	return c
}

// on makes a call for a page, which changes nothing.
func (c *CallOf[In, Out]) on(q *Request, in In) (out Out, err error) {
	if err := c.may(q.Who); err != nil || c.Acts() {
		return out, cmp.Or[error](err, &Error{http.StatusForbidden, "a page changes nothing while it is shown"})
	}
	v, err := c.run(q, &in)
	if err != nil {
		return out, understood(err)
	}
	return v.(Out), nil
}

// Ask makes the call with a client.
func (c *CallOf[In, Out]) Ask(ctx context.Context, client *Client, in In) (out Out, err error) {
	path, body, err := c.address(&in)
	if err == nil {
		err = client.call(ctx, c.Method, path, body, &out)
	}
	return out, err
}

// With returns a function that makes the call.
func (c *CallOf[In, Out]) With(in In) func(*Client, context.Context) (Out, error) {
	return func(client *Client, ctx context.Context) (Out, error) { return c.Ask(ctx, client, in) }
}

// None is what a call takes, or returns, that has nothing to say.
type None struct{}

// log writes the audit log for a call that took.
func (q *Request) log(c *Call, in, out any) error {
	if !c.Acts() || c.logs || q.looked {
		return nil
	}
	text, err := json.Marshal(in)
	if err != nil || len(text) > store.MaxEntryText || string(text) == "{}" {
		text = nil
	}
	return q.backend.Log(q, store.Entry{By: q.Who.Name, What: cmp.Or(q.did, c.Name()), User: q.subject,
		Text: string(text), From: q.From, Before: detail(q.before), After: detail(out)})
}

// detail writes a value for the audit log, as far as there is space for it.
func detail(v any) store.Detail {
	if v == nil {
		return ""
	}
	if _, nothing := v.(None); nothing {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > store.MaxDetail {
		return `"too long to be kept"`
	}
	return store.Detail(text)
}

// A Name is what calls about one account or user take.
type Name struct {
	Name string `json:"name"`
}

var (
	StatusCall = define(http.MethodGet, "/status", access.View, "status", "Shows what a running weir does.",
		func(q *Request, _ *None) (Status, error) { return q.backend.Status(), nil })

	WhyAskCall = define(http.MethodPost, "/why", access.View, "why",
		"Explains what would happen to a request, or to a message, now. Nothing is charged.",
		func(q *Request, in *Question) (Explanation, error) { return q.backend.Why(*in) })

	// The account is a parameter and no part of the path: it may be any text, "../.." too.
	AccountGetCall = define(http.MethodGet, "/account", access.View, "account get", "Shows what an account has used.",
		func(q *Request, in *Name) (Account, error) { return q.backend.Account(in.Name) })

	AccountResetCall = define(http.MethodDelete, "/account", access.Act, "account reset",
		"Resets what an account has used. Its waiting requests may go; requests under way still count.",
		func(q *Request, in *Name) (Account, error) {
			q.subject = in.Name
			if before, err := q.backend.Account(in.Name); err == nil {
				q.before = before
			}
			return q.backend.ResetAccount(in.Name)
		}).saying(func(in *Name, _ Account) string { return "Reset: " + in.Name + " has used nothing." })

	ShadowCall = define(http.MethodPost, "/shadow", access.Act, "shadow on, shadow off",
		"Switches throttles to shadow, where they count and let everything pass, or back.",
		func(q *Request, in *Shadow) (ShadowResult, error) {
			q.before = shadowStates(q.backend.Throttles())
			return q.backend.SetShadow(q, *in, q.by())
		}).saying(func(in *Shadow, _ ShadowResult) string {
		if in.On {
			return "In shadow: nothing is refused, and everything is counted."
		}
		return "Out of shadow: verdicts are acted upon."
	})

	ReloadCall = define(http.MethodPost, "/reload", access.Admin, "reload",
		"Reads the configuration again. A reload applies completely or not at all.",
		func(q *Request, _ *None) (Reloaded, error) {
			q.before = q.backend.Status().Config
			// A client that leaves must not interrupt a reload.
			if err := q.backend.Reload(context.WithoutCancel(q)); err != nil {
				return Reloaded{}, err
			}
			return Reloaded{true}, nil
		}).saying(func(*None, Reloaded) string { return "The configuration is in effect." })
)

// Reloaded is the answer to a reload.
type Reloaded struct {
	Reloaded bool `json:"reloaded"`
}

// ShadowResult is the answer to Shadow.
type ShadowResult struct {
	Throttles []ShadowState `json:"throttles"`
	All       *ShadowAll    `json:"all,omitempty"`      // the emergency switch is on
	Warnings  []string      `json:"warnings,omitempty"` // what the operator should know
}

func shadowStates(throttles []Throttle) ShadowResult {
	all := ShadowResult{Throttles: []ShadowState{}}
	for _, t := range throttles {
		all.Throttles = append(all.Throttles, ShadowState{t.Link.Name, t.Link.Shadow.Load()})
	}
	return all
}
