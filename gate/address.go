package gate

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"

	"weir"
	"weir/identify"
)

// An Address is where a gate is to listen, with what its options say to somebody who wrote it wrong.
type Address struct {
	Listen  string
	Socket  Socket
	Default bool   // listen may be left out
	TCP     string // such as "127.0.0.1:8081", in the way that hints write it
	Unix    string // such as unix:/run/weir/envoy
}

// Validate adds the mistakes.
func (a *Address) Validate(v *weir.Mistakes) {
	network, address := Split(a.Listen)
	switch {
	case a.Listen == "" && !a.Default:
		v.Add("listen", "the gate has no address to listen on", "write listen: "+a.TCP+", or "+a.Unix)
	case a.Listen == "":
	case network == "unix" && !filepath.IsAbs(address):
		v.Add("listen", fmt.Sprintf("%q is not the path of a socket from the root on", a.Listen), "write "+a.Unix)
	case network == "tcp":
		hint := "write " + a.TCP
		if a.Default {
			hint += ", or " + a.Unix
		}
		if _, _, err := weir.HostPort(address); err != nil {
			v.Add("listen", err.Error(), hint)
		}
	}
	if a.Socket != (Socket{}) && network != "unix" && (a.Listen != "" || a.Default) {
		v.Add("socket", "the gate does not listen on a socket of this machine",
			"leave it out, or write listen: "+a.Unix)
	}
	if a.Socket.Mode != "" {
		if mode, err := strconv.ParseUint(a.Socket.Mode, 8, 32); err != nil || mode > 0o777 {
			v.Add("socket.mode", fmt.Sprintf("%q is not a mode", a.Socket.Mode), "write 0660")
		}
	}
}

// ValidateProxies adds the mistakes in a list of networks whose proxies are to be believed.
func ValidateProxies(v *weir.Mistakes, path string, all []netip.Prefix) {
	for i, prefix := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !prefix.IsValid() {
			v.Add(at, "not a network", "write 10.0.0.0/8 or 2001:db8::/32")
		} else if prefix.Bits() == 0 {
			v.Add(at, fmt.Sprintf("%s trusts everybody to name any source address", prefix),
				"name the networks of your proxies")
		}
	}
}

// ValidateAccounts adds the mistakes in where accounts are found, at a gate that checks neither tokens nor
// certificates.
func ValidateAccounts(v *weir.Mistakes, account []string, conflict identify.Conflict) {
	accounts, err := identify.ParseAccounts(account)
	v.Under("account", err)
	conflict.Validate(v, &accounts)
	if accounts.Certs() || len(accounts.Claims()) > 0 {
		v.Add("account", "neither tokens nor certificates are checked at this gate",
			"name accounts by header:X-Api-Key, bearer, query:key, cookie:session, path:1 or source")
	}
}
