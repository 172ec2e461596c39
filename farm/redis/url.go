package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"weir"
)

// ErrURL means that an engine's URL cannot be read.
var ErrURL = errors.New("the URL of the engine cannot be used")

// Bounds of a URL.
const (
	maxURL       = 4096
	maxAddresses = 64
	maxPrefix    = 64
	maxSocket    = 107 // the kernel's bound
)

const defaultPrefix = "weir"

// An address is where an engine is, and how to get in.
type address struct {
	tls                            bool
	user, password                 string
	addresses                      []string
	socket                         bool // the one address is a socket of this machine
	cluster                        bool
	db                             int
	prefix                         string
	master                         string // what the sentinels call it; "" without sentinels
	sentinelUser, sentinelPassword string
}

// parse reads a URL:
//
//	redis://user:password@host:6379/0              one engine, or a primary; /0 is the database
//	redis://host1,host2:6380                       a cluster; or one address with ?cluster=true
//	redis+sentinel://host1,host2:26379/mymaster    sentinels; ?sentinel_user= and ?sentinel_password= are theirs
//	redis+unix:///run/redis/redis.sock             an engine on this machine, by its socket
//
// rediss and rediss+sentinel use TLS. valkey and valkeys are the same. ?prefix= sets what the names of keys begin with,
// ?db= the database. Errors never have the URL in them, as it may have a password.
func parse(text string) (p address, err error) {
	bad := func(format string, args ...any) (address, error) {
		return address{}, fmt.Errorf("%w: "+format+"; write redis://user:password@host:6379", append([]any{ErrURL}, args...)...)
	}
	if len(text) > maxURL {
		return bad("it has %d bytes, %d are possible", len(text), maxURL)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return bad("it has no scheme")
	}
	engine, sentinel := strings.CutSuffix(scheme, "+sentinel")
	engine, p.socket = strings.CutSuffix(engine, "+unix")
	switch {
	case sentinel && p.socket:
		return bad("sentinels are asked over the network")
	case engine == "redis" || engine == "valkey":
	case (engine == "rediss" || engine == "valkeys") && !p.socket:
		p.tls = true
	default:
		return bad("its scheme is not one of redis, rediss, redis+sentinel, rediss+sentinel, redis+unix, valkey, valkeys")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return bad("it has a ? before an @: in a password ? is written %%3F, and @ after it %%40")
	}
	port := "6379"
	if sentinel {
		port = "26379"
	}
	// A password may have a slash or an @ in it that nobody has escaped.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		if p.user, err = url.PathUnescape(user); err != nil {
			return bad("its user is not escaped correctly")
		}
		if p.password, err = url.PathUnescape(password); err != nil {
			return bad("its password is not escaped correctly: %% is written %%25")
		}
		rest = rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if p.socket {
		if hosts != "" || path == "" || len(rest) > maxSocket {
			return bad("it has no path of a socket, of at most %d bytes: redis+unix:///run/redis/redis.sock", maxSocket)
		}
		p.addresses, hosts, path = []string{rest}, "", ""
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if p.socket {
			break
		}
		hostPort, err := withPort(host, port)
		if err != nil {
			return bad("one of its hosts is not an address") // which may be a part of a password
		}
		if p.addresses = append(p.addresses, hostPort); len(p.addresses) > maxAddresses {
			return bad("it has more than %d addresses", maxAddresses)
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("what follows the ? cannot be read")
	}
	p.prefix = defaultPrefix
	p.cluster = len(p.addresses) > 1 && !sentinel
	db := ""
	if sentinel {
		p.master = path
	} else {
		db = path
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch {
		case name == "prefix" && value != "" && len(value) <= maxPrefix && !strings.ContainsAny(value, "{}"):
			p.prefix = value
		case name == "prefix":
			return bad("prefix must have 1 to %d bytes, without { and }", maxPrefix)
		case name == "db":
			db = value
		case name == "cluster" && !sentinel && !p.socket:
			if p.cluster, err = strconv.ParseBool(value); err != nil || !p.cluster && len(p.addresses) > 1 {
				return bad("cluster must be true; several addresses are always a cluster")
			}
		case name == "sentinel_user" && sentinel:
			p.sentinelUser = value
		case name == "sentinel_password" && sentinel:
			p.sentinelPassword = value
		default:
			return bad("it has the unknown option %q", name)
		}
	}
	if sentinel && (p.master == "" || strings.Contains(p.master, "/")) {
		return bad("it does not say what the sentinels call the engine: redis+sentinel://host/mymaster")
	}
	if db != "" {
		if p.db, err = strconv.Atoi(db); err != nil || p.db < 0 {
			return bad("what follows the host is not the number of a database")
		}
	}
	if p.cluster && p.db != 0 {
		return bad("a cluster has no database besides 0")
	}
	return p, nil
}

// withPort returns an address, with a port if it has none.
func withPort(address, port string) (string, error) {
	host := address
	if h, p, err := net.SplitHostPort(address); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		host = address[1 : len(address)-1]
	} else if strings.Contains(address, ":") {
		return "", err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || host == "" ||
		strings.ContainsAny(host, " \t\r\n[]") || weir.CheckHost(host) != nil {
		return "", ErrURL
	}
	return net.JoinHostPort(host, port), nil
}

// String returns the URL without user and password.
func (a address) String() string {
	var b strings.Builder
	b.WriteString("redis")
	if a.tls {
		b.WriteString("s")
	}
	path := ""
	query := url.Values{}
	switch {
	case a.master != "":
		b.WriteString("+sentinel")
		path = "/" + a.master
		if a.db != 0 {
			query.Set("db", strconv.Itoa(a.db))
		}
	case a.socket:
		b.WriteString("+unix")
		if a.db != 0 {
			query.Set("db", strconv.Itoa(a.db))
		}
	case a.db != 0:
		path = "/" + strconv.Itoa(a.db)
	case a.cluster && len(a.addresses) == 1:
		query.Set("cluster", "true")
	}
	b.WriteString("://" + strings.Join(a.addresses, ",") + path)
	if a.prefix != defaultPrefix {
		query.Set("prefix", a.prefix)
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// hide takes passwords out of a text.
func (a address) hide(text string) string {
	for _, secret := range []string{a.password, a.sentinelPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// Where returns the URL of an engine in full, without user and password, or why it cannot be used. It begins with
// rediss where the connection is encrypted.
func Where(url string) (string, error) {
	at, err := parse(url)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}
