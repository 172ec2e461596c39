package farm

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"weir"
)

// Options are what makes a node a member of a farm.
type Options struct {
	// The name of this node, different for each. Default: the host's name.
	Node string `yaml:"node"`
	// Where the other nodes connect. Default: port 7400 of every address, :7400.
	Listen string `yaml:"listen"`
	// The nodes of the farm, this one may be among them: addresses, or names that stand for one or several addresses,
	// each with a port. Names are resolved again every 5 seconds.
	Peers []string `yaml:"peers"`
	// A NATS server that connects the nodes, instead of listen and peers: nats://host:4222 or tls://host:4222.
	NATS string `yaml:"nats"`
	// The secret that all nodes share, at least 16 characters. Everything that clients carry from node to node is
	// signed with keys derived from it. To change it, list the new one and the old one: the first signs, both are
	// accepted.
	Secret Secrets `yaml:"secret"`
	// Certificates for connections between nodes. Default: made from the secret.
	TLS TLS `yaml:"tls"`
	// Where limits with farm: exact are counted: the URL of a Redis or Valkey that all nodes reach, the same on all. It
	// may be redis://user:password@host:6379, rediss:// with TLS, several hosts of a cluster,
	// redis+sentinel://host1,host2/name, or redis+unix:///run/redis/redis.sock. Default: there is none.
	Counters string `yaml:"counters"`
	// Certificates for the connection to it, with rediss: ca where the system does not trust its certificate, cert and
	// key where it wants one of this node. Default: what the system trusts.
	CountersTLS TLS `yaml:"counters_tls"`
}

// Secrets are the secret that signs, and the one before it. One alone needs no list.
type Secrets []string

// Single reports that one value may stand for a list of one.
func (Secrets) Single() bool { return true }

// TLS is the certificate of a node, and who signs those of others.
type TLS struct {
	// A file with the certificate of this node, in PEM.
	Cert string `yaml:"cert" file:"beside"`
	// A file with its key, in PEM.
	Key string `yaml:"key" file:"beside"`
	// A file with the authorities, in PEM, that sign the certificate of the other side.
	CA string `yaml:"ca" file:"beside"`
}

// Bounds on what an operator may write.
const (
	DefaultListen = ":7400"
	MaxNode       = 63
	MaxSecrets    = 2
	minSecret     = 16
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	if o.Node == "" {
		host, _ := os.Hostname() // without one, Validate says what is missing
		o.Node = clean(host)
	}
	if o.NATS == "" {
		o.Listen = cmp.Or(o.Listen, DefaultListen)
	}
	return o
}

// clean is a host's name as the name of a node.
func clean(host string) string {
	host, _, _ = strings.Cut(host, ".")
	return host[:min(len(host), MaxNode)]
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var m weir.Mistakes
	o = o.WithDefaults()
	if !namable(o.Node) {
		m.Add("node", fmt.Sprintf("%q is not a name for a node", o.Node), "write up to 63 letters, digits, '-' and '_'")
	}
	o.validateSecret(&m)
	if o.NATS != "" {
		o.validateNATS(&m)
	} else {
		o.validatePeers(&m)
	}
	if set := count(o.TLS.Cert, o.TLS.Key, o.TLS.CA); set != 0 && set != 3 {
		m.Add("tls", "cert, key and ca belong together", "name all three, or leave all out: they then follow from the secret")
	}
	switch t := o.CountersTLS; {
	case t == TLS{}:
	case o.Counters == "":
		m.Add("counters_tls", "there is no connection that it could be for", "add counters: rediss://host:6379")
	case (t.Cert == "") != (t.Key == ""):
		m.Add("counters_tls", "cert and key belong together", "name both, or leave both out")
	}
	return m.Err()
}

func (o *Options) validateSecret(m *weir.Mistakes) {
	if len(o.Secret) == 0 {
		m.Add("secret", "a farm needs a secret, the same on all nodes",
			"write ${file:/etc/weir/farm.secret}; openssl rand -hex 32 makes one")
	}
	m.AtMost("secret", "secrets", len(o.Secret), MaxSecrets)
	for i, s := range o.Secret {
		at := fmt.Sprintf("secret[%d]", i)
		if len(s) < minSecret {
			m.Add(at, fmt.Sprintf("a secret of fewer than %d characters is easily guessed", minSecret),
				"openssl rand -hex 32 makes one")
		}
		if i > 0 && s == o.Secret[0] {
			m.Add(at, "it is the same as the first", "leave it out")
		}
	}
}

func (o *Options) validateNATS(m *weir.Mistakes) {
	for _, u := range strings.Split(o.NATS, ",") {
		if at, err := url.Parse(u); err != nil || at.Host == "" || at.Scheme != "nats" && at.Scheme != "tls" ||
			weir.CheckURL(at) != nil {
			m.Add("nats", "that is not the address of a NATS server", "write nats://host:4222 or tls://host:4222")
		}
	}
	if o.Listen != "" {
		m.Add("listen", "with nats: the nodes connect to the NATS server", "leave listen out")
	}
	if len(o.Peers) > 0 {
		m.Add("peers", "with nats: the nodes connect to the NATS server", "leave peers out")
	}
}

func (o *Options) validatePeers(m *weir.Mistakes) {
	if err := hostPort(o.Listen, true); err != nil {
		m.Add("listen", err.Error(), "write :7400, or an address and a port")
	}
	if len(o.Peers) == 0 {
		m.Add("peers", "no other node is named", "list the other nodes: [\"10.0.0.2:7400\"], or a name for all of them")
	}
	m.AtMost("peers", "peers", len(o.Peers), MaxNodes)
	for i, p := range o.Peers {
		if err := hostPort(p, false); err != nil {
			m.Add(fmt.Sprintf("peers[%d]", i), err.Error(), "write 10.0.0.1:7400 or weir.internal:7400")
		}
	}
}

// hostPort returns what is wrong with an address.
func hostPort(text string, emptyHost bool) error {
	host, port, err := weir.HostPort(text)
	switch {
	case err != nil:
		return err
	case host == "" && !emptyHost:
		return fmt.Errorf("%q names no host", text)
	case strings.Trim(port, "0") == "" && !emptyHost:
		return fmt.Errorf("%q has no port from 1 to 65535", text)
	}
	return nil
}

// namable reports whether a text may name a node: it is a part of a subject on the bus.
func namable(name string) bool {
	if name == "" || len(name) > MaxNode {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func count(texts ...string) (set int) {
	for _, t := range texts {
		if t != "" {
			set++
		}
	}
	return set
}
