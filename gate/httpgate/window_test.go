package httpgate

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir"
)

// A client of HTTP/2 that never opens its window keeps no stream, however small the answer is. One whose answer takes
// longer than that is served.
func TestStreamsThatTakeTheirTime(t *testing.T) {
	const quick = 200 * time.Millisecond
	slow := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-time.After(4 * quick): // it is slower than a client may be
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "hello")
	})
	g := start(t, Options{Upstream: to(slow.URL), Timeouts: Timeouts{Progress: weir.Duration(quick)}})
	for path, window := range map[string]uint32{"/": 0, "/slow": 65535} {
		t.Run(path, func(t *testing.T) {
			c := g.dial()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
				t.Fatal(err)
			}
			fr := http2.NewFramer(c, c)
			if err := fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
				t.Fatal(err)
			}
			var head bytes.Buffer
			e := hpack.NewEncoder(&head)
			for _, f := range [][2]string{{":method", "GET"}, {":path", path}, {":scheme", "http"}, {":authority", "a"}} {
				_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true,
				EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
			for {
				f, err := fr.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				switch f := f.(type) {
				case *http2.SettingsFrame:
					if !f.IsAck() {
						_ = fr.WriteSettingsAck()
					}
				case *http2.RSTStreamFrame:
					if window > 0 {
						t.Errorf("the stream was ended: %v", f.ErrCode)
					}
					return
				case *http2.DataFrame:
					if window == 0 && len(f.Data()) > 0 || window > 0 && string(f.Data()) != "hello" {
						t.Errorf("%q", f.Data())
					}
					if f.StreamEnded() {
						return
					}
				}
			}
		})
	}
}
