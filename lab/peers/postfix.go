package peers

import _ "embed"

// PostfixMain and PostfixMaster are a Postfix that relays what this machine sends to one server. It is told its folder,
// where to listen, where the server is, and how many clients there are.
var (
	//go:embed postfix-main.cf.tmpl
	PostfixMain string
	//go:embed postfix-master.cf.tmpl
	PostfixMaster string
)
