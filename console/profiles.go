package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/http/pprof"
	"net/netip"
)

// Bounds of passwords for profiles. A shorter one can be guessed: nothing slows guesses down.
const (
	minProfilesPassword = 16
	maxProfilesPassword = 1024
)

// boundProfiles is the name of the bound on profiles in the metrics. One is made at a time: each takes memory and
// processor time from those who are served.
const boundProfiles = "console_profiles"

// profileNames are the profiles of Go's runtime that can be asked for, besides "profile" (processor time) and "trace".
// The command line is not among them.
var profileNames = []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"}

// profiles answers below /debug/pprof/, for go tool pprof. stopping ends when the console does.
func (s *Server) profiles(stopping context.Context) http.Handler {
	mux := http.NewServeMux()
	for _, name := range profileNames {
		mux.Handle("/debug/pprof/"+name, pprof.Handler(name))
	}
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, why := s.guard.Load().checkProfiles(r); why != "" {
			if code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="weir profiles", charset="UTF-8"`)
			}
			writeJSON(w, code, &Error{Msg: why})
			return
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		default:
			s.metrics.BoundReached(boundProfiles)
			writeJSON(w, http.StatusServiceUnavailable, &Error{Msg: "another profile is being made; try again later"})
			return
		}
		// A profile takes as long as the client likes, up to a minute. A stop does not wait for it.
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// checkProfiles returns why a request for a profile is refused, or "". Profiles are for this machine alone, since the
// console has no TLS and others could read the password on its way.
func (g *guard) checkProfiles(r *http.Request) (code int, why string) {
	if g.profiles == nil {
		return http.StatusNotFound, "profiles are off; console.profiles_password turns them on"
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return http.StatusForbidden, "profiles are for this machine alone"
	}
	_, password, _ := r.BasicAuth()
	if sum := sha256.Sum256([]byte(password)); subtle.ConstantTimeCompare(sum[:], g.profiles[:]) != 1 {
		return http.StatusUnauthorized, "wrong or no password: send console.profiles_password, with any user name"
	}
	return 0, ""
}

// profilesSum returns what passwords are compared with, or nil where profiles are off.
func profilesSum(password string) *[sha256.Size]byte {
	if password == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(password))
	return &sum
}
