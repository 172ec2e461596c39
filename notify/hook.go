package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 4 << 10

// A hook sends to a webhook.
type hook struct {
	Webhook
	client *http.Client
}

func newHook(w Webhook, env Env) *hook {
	h := &hook{w, env.HTTP}
	if h.client == nil {
		h.client = &http.Client{
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// What is sent is for this address, and not for another one that it names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return h
}

// A message is the body of a POST. Text is what chat services show.
type message struct {
	Text    string   `json:"text"`
	Notices []Notice `json:"notices"`
}

func (h *hook) send(ctx context.Context, id string, now time.Time, all []Notice) error {
	lines := make([]string, len(all))
	for i := range all {
		lines[i] = all[i].Text
	}
	body, err := json.Marshal(message{strings.Join(lines, "\n"), all})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return h.hide(err)
	}
	at := strconv.FormatInt(now.Unix(), 10)
	req.Header = http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"weir"},
		"Webhook-Id":        {id},
		"Webhook-Timestamp": {at},
		"Webhook-Signature": {sign(h.Secret, id, at, body)},
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return h.hide(err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%w: %s %s", ErrRefused, resp.Status, said)
	}
	return nil
}

// hide takes the path of a webhook out of an error: it often is a secret.
func (h *hook) hide(err error) error {
	t := Target{Webhook: &h.Webhook}
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), h.URL, strings.TrimPrefix(t.String(), "webhook ")+"/…"))
}

// sign is the header webhook-signature. A secret may be written as the specification does: whsec_ and base64.
func sign(secret, id, at string, body []byte) string {
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			key = decoded
		}
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + at + "."))
	m.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func (h *hook) close(context.Context) { h.client.CloseIdleConnections() }
