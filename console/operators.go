package console

import (
	_ "embed"
	"errors"
	"net/http"
	"time"

	"weir"
	"weir/console/access"
	"weir/mail/login"
	"weir/store"
)

// An OperatorList lists the operators.
type OperatorList struct {
	Operators []access.OperatorView `json:"operators"`
}

// A NewOperator is an operator to add.
type NewOperator struct {
	Name     string      `json:"name"`
	Role     access.Role `json:"role"`
	Password string      `json:"password"`
}

// An OperatorPassword gives an operator another password. Whoever changes their own must know the old one. That of
// another operator needs the role admin.
type OperatorPassword struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Old      string `json:"old,omitempty"`
}

// An OperatorRole gives an operator another role.
type OperatorRole struct {
	Name string      `json:"name"`
	Role access.Role `json:"role"`
}

// A SessionList lists the open sessions of an operator, the latest used first.
type SessionList struct {
	Sessions []access.SessionView `json:"sessions"`
}

// A SessionEnd ends sessions of an operator: all, unless it says which.
type SessionEnd struct {
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"`     // only this one
	Others bool   `json:"others,omitempty"` // all but the one that asks
}

// SessionsEnded is the answer to SessionEnd.
type SessionsEnded struct {
	Ended int `json:"ended"` // sessions
}

// A TokenList lists the tokens, without their secrets.
type TokenList struct {
	Tokens []store.Token `json:"tokens"`
}

// A NewToken is a token to make.
type NewToken struct {
	Name string        `json:"name"`
	Role access.Role   `json:"role"`
	For  weir.Duration `json:"for,omitzero"` // how long it is good; left out: until it is revoked
}

// A MadeToken is a new token. Its secret is shown this once.
type MadeToken struct {
	store.Token
	Secret string `json:"secret"`
}

var errNoAccess = &Error{http.StatusServiceUnavailable, "weir is starting or stopping"}

// withAccess is the function of a call about operators.
func withAccess[In, Out any](f func(*Request, *access.Operators, *In) (Out, error)) func(*Request, *In) (Out, error) {
	return func(q *Request, in *In) (out Out, err error) {
		d := q.backend.Access()
		if d == nil {
			return out, errNoAccess
		}
		out, err = f(q, d, in)
		return out, refused(err)
	}
}

// refused gives errors of package access their status.
func refused(err error) error {
	for _, invalid := range []error{access.ErrName, access.ErrRole, access.ErrLife} {
		if errors.Is(err, invalid) {
			return Invalid(err.Error())
		}
	}
	for known, code := range map[error]int{access.ErrLastAdmin: http.StatusConflict,
		access.ErrTooMany: http.StatusConflict, access.ErrWrong: http.StatusForbidden,
		access.ErrGuessing: http.StatusTooManyRequests, access.ErrBusy: http.StatusServiceUnavailable} {
		if errors.Is(err, known) {
			return &Error{code, err.Error()}
		}
	}
	return err
}

var (
	OperatorListCall = define(http.MethodGet, "/operators", access.Admin, "operator list",
		"Shows who may log in to the console.",
		withAccess(func(q *Request, d *access.Operators, _ *None) (OperatorList, error) {
			all, err := d.List(q)
			return OperatorList{all}, err
		}))

	OperatorAddCall = define(http.MethodPost, "/operators", access.Admin, "operator add",
		"Adds an operator with a role: view, act or admin.",
		withAccess(func(q *Request, d *access.Operators, in *NewOperator) (v access.OperatorView, err error) {
			if err := access.CheckPassword(in.Password); err != nil {
				return v, Invalid(err.Error())
			}
			v, err = d.AddOperator(q, q.Who, in.Name, in.Role, in.Password)
			if errors.Is(err, store.ErrExists) {
				err = Rejected("there is an operator " + in.Name + " already")
			}
			return v, err
		})).logged().saying(func(in *NewOperator, _ access.OperatorView) string { return "Added: " + in.Name + "." })

	OperatorRemoveCall = define(http.MethodDelete, "/operators", access.Admin, "operator remove",
		"Removes an operator. Their sessions end at once, and the tokens that they made on the console.",
		withAccess(func(q *Request, d *access.Operators, in *Name) (Removed, error) {
			err := d.RemoveOperator(q, q.Who, in.Name)
			return Removed{in.Name}, missing(err, "there is no operator %q", in.Name)
		})).logged().saying(func(in *Name, _ Removed) string { return "Removed: " + in.Name + "." })

	OperatorRoleCall = define(http.MethodPost, "/operators/role", access.Admin, "operator role",
		"Gives an operator another role: view, act or admin. It holds at once, also in open sessions.",
		withAccess(func(q *Request, d *access.Operators, in *OperatorRole) (access.OperatorView, error) {
			v, err := d.SetRole(q, q.Who, in.Name, in.Role)
			return v, missing(err, "there is no operator %q", in.Name)
		})).logged().saying(func(in *OperatorRole, _ access.OperatorView) string {
		return in.Name + " has the role " + string(in.Role) + " now."
	})

	OperatorSessionsCall = define(http.MethodGet, "/operators/sessions", access.View, "operator sessions",
		"Shows the open sessions of an operator. Those of another operator need the role admin.",
		withAccess(func(q *Request, d *access.Operators, in *Name) (SessionList, error) {
			if err := q.ownOrAdmin(in.Name, "a look at the sessions of another operator"); err != nil {
				return SessionList{}, err
			}
			all, err := d.Sessions(q, q.Who, in.Name)
			return SessionList{all}, missing(err, "there is no operator %q", in.Name)
		}))

	OperatorLogOutCall = define(http.MethodDelete, "/operators/sessions", access.View, "operator logout",
		"Ends sessions of an operator at once. Those of another operator need the role admin.",
		withAccess(func(q *Request, d *access.Operators, in *SessionEnd) (SessionsEnded, error) {
			if err := q.ownOrAdmin(in.Name, "the end of the sessions of another operator"); err != nil {
				return SessionsEnded{}, err
			}
			if in.ID != "" && in.Others {
				return SessionsEnded{}, Invalid("one session, or all others: not both")
			}
			n, err := d.EndSessions(q, q.Who, in.Name, in.ID, in.Others)
			if in.ID != "" {
				return SessionsEnded{n}, missing(err, "there is no such session: it has ended, or it is not of %q", in.Name)
			}
			return SessionsEnded{n}, missing(err, "there is no operator %q", in.Name)
		})).logged().saying(func(in *SessionEnd, out SessionsEnded) string {
		return "Ended: " + several(out.Ended, "session") + " of " + in.Name + "."
	})

	OperatorPasswordCall = define(http.MethodPost, "/operators/password", access.View, "operator password",
		"Changes the password of an operator, and ends their sessions. One's own needs the old one, that of "+
			"another operator the role admin.",
		withAccess(func(q *Request, d *access.Operators, in *OperatorPassword) (Changed, error) {
			if err := access.CheckPassword(in.Password); err != nil {
				return Changed{}, Invalid(err.Error())
			}
			if err := q.ownOrAdmin(in.Name, "the password of another operator"); err != nil {
				return Changed{}, err
			}
			if q.Who.Operator == in.Name { // in an unattended browser, nobody takes over an account for good
				if err := d.Confirm(q, access.Attempt{Name: in.Name, Password: in.Old, Source: q.Source}); err != nil {
					return Changed{}, err
				}
			}
			_, err := d.SetPassword(q, q.Who, in.Name, in.Password)
			return Changed{in.Name}, missing(err, "there is no operator %q", in.Name)
		})).logged().saying(func(in *OperatorPassword, _ Changed) string {
		return "The password of " + in.Name + " is changed."
	})

	TokenListCall = define(http.MethodGet, "/tokens", access.Admin, "token list",
		"Shows the tokens of programs, without their secrets.",
		withAccess(func(q *Request, d *access.Operators, _ *None) (TokenList, error) {
			all, err := d.Tokens(q)
			return TokenList{all}, err
		}))

	TokenAddCall = define(http.MethodPost, "/tokens", access.Admin, "token add",
		"Makes a token for a program. Its secret is shown this once.",
		withAccess(func(q *Request, d *access.Operators, in *NewToken) (MadeToken, error) {
			k, secret, err := d.AddToken(q, q.Who, in.Name, in.Role, time.Duration(in.For))
			if errors.Is(err, store.ErrExists) {
				err = Rejected("there is a token " + in.Name + " already")
			}
			return MadeToken{k, secret}, err
		})).logged().once()

	TokenRevokeCall = define(http.MethodDelete, "/tokens", access.Admin, "token revoke", "Ends a token at once.",
		withAccess(func(q *Request, d *access.Operators, in *Name) (Removed, error) {
			return Removed{in.Name}, missing(d.RevokeToken(q, q.Who, in.Name), "there is no token %q", in.Name)
		})).logged().saying(func(in *Name, _ Removed) string { return "Revoked: " + in.Name + "." })
)

// ownOrAdmin refuses what somebody without the role admin asks about another operator.
func (q *Request) ownOrAdmin(name, what string) error {
	if name == "" {
		return Invalid("name: which operator?")
	}
	if q.Who.Role.May(access.Admin) || q.Who.Operator != "" && q.Who.Operator == name {
		return nil
	}
	return &Error{http.StatusForbidden, what + " needs the role admin"}
}

//go:embed operatorspage.html
var operatorsHTML string

//go:embed accountpage.html
var accountHTML string

// operatorsPage shows who may do what.
func operatorsPage() *page {
	return newPage(page{path: "operators", name: "Operators", role: access.Admin, show: showOperators}, operatorsHTML)
}

// accountPage is for an operator's own password and sessions. The name of the operator leads there.
func accountPage() *page {
	return newPage(page{path: accountPath, name: "Your account", under: accountPath, role: access.View,
		show: showAccount}, accountHTML)
}

const accountPath = "account"

// roles are those that can be chosen, the lowest first.
var roles = []access.Role{access.View, access.Act, access.Admin}

// An operatorsShown is the page Operators.
type operatorsShown struct {
	Operators []operatorRow
	Tokens    []store.Token
	Roles     []access.Role
	Shortest  int // a password
}

type operatorRow struct {
	access.OperatorView
	Own bool // it is who looks
}

func showOperators(v *visit) (any, error) {
	all, err := OperatorListCall.on(v.Request, None{})
	if err != nil {
		return nil, err
	}
	tokens, err := TokenListCall.on(v.Request, None{})
	shown := operatorsShown{Tokens: tokens.Tokens, Roles: roles, Shortest: login.MinPassword}
	for _, o := range all.Operators {
		shown.Operators = append(shown.Operators, operatorRow{o, o.Name == v.Who.Operator})
	}
	return shown, err
}

// An accountShown is the page of an operator about themselves.
type accountShown struct {
	Name     string
	Sessions []access.SessionView
	Others   bool // there are sessions besides this one
	Shortest int
}

func showAccount(v *visit) (any, error) {
	if v.Who.Operator == "" {
		return nil, NotFound("You are not an operator of weir, so there is no password and no session to look at.")
	}
	all, err := OperatorSessionsCall.on(v.Request, Name{v.Who.Operator})
	shown := accountShown{Name: v.Who.Operator, Sessions: all.Sessions, Shortest: login.MinPassword}
	for _, s := range all.Sessions {
		shown.Others = shown.Others || !s.Here
	}
	return shown, err
}
