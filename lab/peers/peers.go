// Package peers has the configurations of the programs that weir is measured against, as templates: what an expert of
// these programs would write. docs/flood.md explains them.
package peers

import _ "embed"

// Nginx and HAProxy protect a service of known capacity that may be flooded. Their templates are given where to
// listen, where the service is, its capacity, and the limit of one address.
var (
	//go:embed nginx.conf.tmpl
	Nginx string
	//go:embed haproxy.cfg.tmpl
	HAProxy string
)

// NginxProxy is nginx with limit_req and proxy_pass, and HAProxyProxy is HAProxy with a stick table. NginxService is
// the service behind them, which has the file "large" in its folder. Their templates are given where to listen, and a
// folder for what they write; those of the proxies also where to listen for TLS, and the certificate with its key,
// which HAProxy wants in one file.
var (
	//go:embed haproxy-proxy.cfg.tmpl
	HAProxyProxy string
	//go:embed nginx-proxy.conf.tmpl
	NginxProxy string
	//go:embed nginx-service.conf.tmpl
	NginxService string
)

// PostfixMain are the lines of main.cf of a Postfix that relays what this machine sends to one server, beside those
// of every Postfix in internal/testkit/postfix. The template is given the server, and how many clients there are.
//
//go:embed postfix-main.cf.tmpl
var PostfixMain string

// Postfwd is a ruleset for a policy service of Postfix that counts what each user sends.
//
//go:embed postfwd.cf
var Postfwd string

// Ratelimit is a configuration of envoyproxy/ratelimit, which weir reads as it is. RatelimitEnv and Redis are the
// rest of its set-up: a Redis on the same machine, no statistics, and a log of errors only.
var (
	//go:embed ratelimit/edge.yaml
	Ratelimit string
	//go:embed ratelimit/service.env
	RatelimitEnv string
	//go:embed ratelimit/redis.conf
	Redis string
)
