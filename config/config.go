package config

import (
	"weir/console"
	"weir/gate/httpgate"
	"weir/policy"
	"weir/quota"
)

// Config is a whole configuration, as it stands in the file.
type Config struct {
	// The folder for what weir keeps. Default /var/lib/weir.
	Data string `yaml:"data"`
	// The socket for the commands that act on a running weir. Default: weir.sock in the data folder.
	Control string `yaml:"control"`
	// HTTP gates.
	HTTP []httpgate.Options `yaml:"http"`
	// The throttles, by the name under which gates list them.
	Throttles map[string]Throttle `yaml:"throttles"`
	// Metrics and health.
	Console console.Options `yaml:"console"`
	// The log.
	Log Log `yaml:"log"`
}

// Throttle is one throttle: exactly one mechanism, and how it is run.
type Throttle struct {
	// Limits per account: requests, concurrency, spacing, volume.
	Quota *quota.Options `yaml:"quota"`
	// Judge and count, but let everything pass.
	Shadow bool `yaml:"shadow"`
	// What a failure of the throttle itself means: closed (refuse; the default) or open (pass it over).
	OnError policy.OnError `yaml:"on_error"`
}

// Log says what is logged.
type Log struct {
	// The least severe level: debug, info (the default), warn or error.
	Level string `yaml:"level"`
	// text, json, or auto (the default): text on a terminal, JSON elsewhere.
	Format string `yaml:"format"`
	// One line for each request: all (the default), refused (only what was refused, delayed or failed) or off.
	Access string `yaml:"access"`
}
