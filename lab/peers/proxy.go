package peers

import _ "embed"

// NginxProxy is nginx with limit_req and proxy_pass, NginxService what it stands in front of. They are told where to
// listen, and a folder for what they write.
var (
	//go:embed nginx-proxy.conf.tmpl
	NginxProxy string
	//go:embed nginx-service.conf.tmpl
	NginxService string
)
