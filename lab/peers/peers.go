// Package peers has the configurations of the programs that weir is measured beside, as templates: what somebody would
// write who knows them well. docs/flood.md explains them.
package peers

import _ "embed"

// Nginx and HAProxy stand in front of a service of known capacity that may be flooded. They are told where
// to listen, where the service is, what it can do, and what one address may ask for.
var (
	//go:embed nginx.conf.tmpl
	Nginx string
	//go:embed haproxy.cfg.tmpl
	HAProxy string
)
