// Package identify finds out who sent a request: the source address behind trusted proxies, its network, and the
// account that the request is charged to.
//
// Most callers want Proxies.Source for the address and Accounts.Account for the account id. Claims of clients are
// believed only if they can do no harm: forwarding headers count only if the peer is a trusted proxy, and an account id
// is bounded in length and has no control characters.
//
// An account id may be an API key. It must not be written to a log in clear: write Mask of it instead.
package identify
