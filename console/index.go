package console

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
)

//go:embed index.html
var indexHTML string

//go:embed style.css
var styleCSS []byte

var indexPage = template.Must(template.New("index").Parse(indexHTML))

func style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Write(styleCSS)
}

// index is the page for people: what runs, and where to look further.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	page := struct {
		Status
		NotReady string
	}{Status: s.backend.Status()}
	if err := s.backend.Ready(); err != nil {
		page.NotReady = err.Error()
	}
	var b bytes.Buffer
	if err := indexPage.Execute(&b, page); err != nil {
		writeJSON(w, http.StatusInternalServerError, &Error{Msg: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(b.Bytes())
}
