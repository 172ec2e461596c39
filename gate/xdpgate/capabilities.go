package xdpgate

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers of capabilities, from linux/capability.h.
const (
	capNetAdmin = 12
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

// missingCapabilities reads the status of a process, as in /proc, and returns which of the capabilities needed are not
// in effect. Older tools grant CAP_SYS_ADMIN, which includes two of them.
func missingCapabilities(status string) ([]string, error) {
	for line := range strings.Lines(status) {
		rest, found := strings.CutPrefix(line, "CapEff:")
		if !found {
			continue
		}
		effective, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read the capabilities of this process: %w", err)
		}
		var missing []string
		has := func(bit int) bool { return effective>>bit&1 != 0 }
		// Programs that compare and swap, with pointers in registers, need CAP_PERFMON as well.
		if !has(capBPF) && !has(capSysAdmin) {
			missing = append(missing, "CAP_BPF")
		}
		if !has(capNetAdmin) {
			missing = append(missing, "CAP_NET_ADMIN")
		}
		if !has(capPerfmon) && !has(capSysAdmin) {
			missing = append(missing, "CAP_PERFMON")
		}
		return missing, nil
	}
	return nil, fmt.Errorf("cannot read the capabilities of this process: no CapEff in its status")
}

// newEnough reports whether a kernel's release, as uname has it, is at least some version.
func newEnough(release string, major, minor int) bool {
	var have [2]int
	parts := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	for i := range have {
		if i < len(parts) {
			have[i], _ = strconv.Atoi(parts[i])
		}
	}
	return have[0] > major || have[0] == major && have[1] >= minor
}
