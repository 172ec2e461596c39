package peers

import _ "embed"

// Postfwd is a ruleset for a policy service of Postfix that counts what each user sends.
//
//go:embed postfwd.cf
var Postfwd string
