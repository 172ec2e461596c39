package console

import (
	_ "embed"

	"weir/console/access"
	"weir/mail/login"
	"weir/store"
)

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
