package console

import (
	"encoding/json"
	"net/http"
)

// Where health and readiness are asked for, by whatever name: load balancers often do not know any.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// Readiness is the body of /readyz.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not
}

// healthz says that the process is alive. It checks nothing that a restart would not repair.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
}

// readyz says whether a load balancer should send requests here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.backend.Ready(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, Readiness{Reason: err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, Readiness{Ready: true})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(body, '\n'))
}
