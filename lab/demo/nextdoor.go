package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
)

// A login is a service next door that asks the decision API of weir about each attempt.
type login struct {
	token  string
	client *http.Client
}

func newLogin() *login {
	return &login{token: rand.Text(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: bloomAskers},
		Timeout: patience}}
}

// attempts returns how a crowd comes to the service next door: from each network so many times at once. The service
// asks about some networks together.
func attempts(networks, times int, of func(*Stage) (*crowd, *login)) func(*Stage) (func(context.Context) Result,
	func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		c, l := of(s)
		c.begin(s.AtWork())
		url := "http://" + s.weir.APIAddr().String() + "/v1/decide"
		return func(ctx context.Context) Result {
			var body bytes.Buffer
			for i := range networks {
				source := c.next()
				for j := range times {
					fmt.Fprintf(&body, "%c{\"source\":\"%s\"}", "[,"[min(i+j, 1)], source)
				}
			}
			body.WriteByte(']')
			return l.ask(ctx, url, &body, networks*times)
		}, l.client.CloseIdleConnections
	}
}

// ask asks so many questions. One refusal among the answers counts as refused.
func (l *login) ask(ctx context.Context, url string, body io.Reader, questions int) Result {
	status, _, answer, err := ask(ctx, l.client, http.MethodPost, url,
		http.Header{"Authorization": {"Bearer " + l.token}}, body)
	switch {
	case err != nil || status != http.StatusOK:
		return Failed
	case bytes.Contains(answer, []byte(`"verdict":"refuse"`)):
		return Refused
	case bytes.Count(answer, []byte(`"verdict":"admit"`)) == questions:
		return Served
	}
	return Failed
}
