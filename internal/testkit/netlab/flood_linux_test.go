package netlab

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// tcpCounts reads the counters of TCP in a namespace: segments taken in, and those with a wrong checksum.
func tcpCounts(ns Namespace) (segments, wrong int, err error) {
	err = ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var heads []string
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			switch {
			case fields[0] != "Tcp:":
			case heads == nil:
				heads = fields
			default:
				for i, head := range heads {
					switch head {
					case "InSegs":
						segments, err = strconv.Atoi(fields[i])
					case "InCsumErrors":
						wrong, err = strconv.Atoi(fields[i])
					}
					if err != nil {
						return fmt.Errorf("%s: %w", head, err)
					}
				}
			}
		}
		return nil
	})
	return segments, wrong, err
}

// TestFloodReachesTCP: the frames of a flood are not dropped before TCP for a wrong address or checksum, so the host
// pays for them.
func TestFloodReachesTCP(t *testing.T) {
	for _, from := range []string{"198.18.7.1", "fd00::7"} {
		near, far := Cable(t)
		frames := [][]byte{SYN(netip.MustParseAddr(from), 443)}
		// More are sent until enough have come: a cable that has just been made may lose some.
		const count = 100
		needs.Wait(t, "SYNs from "+from+" have come to TCP", func() bool {
			if err := Flood(far, frames, count); err != nil {
				t.Fatal(err)
			}
			segments, wrong, err := tcpCounts(near)
			if err != nil || wrong != 0 {
				t.Fatalf("from %s: %d checksums are wrong, %v", from, wrong, err)
			}
			return segments >= count
		})
	}
}
