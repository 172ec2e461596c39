// Package identify finds out who stands behind a request: the source address behind trusted proxies, the network it
// belongs to, and the account that the request is charged to.
//
// Most callers want Proxies.Source for the address and Accounts.Account for the account id. What a client says about
// itself is believed only where it can do no harm: forwarding headers count only when the peer that sent them is a
// trusted proxy, and an account id is bounded in length and free of control characters.
//
// An account id may be an API key. It must not be written to a log in clear: write Mask of it instead.
package identify
