package simulate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errLongLine is given for a line that is too long, of which the rest was left out.
var errLongLine = errors.New("the line is too long")

// logLines reads lines of a bounded length.
type logLines struct {
	r      *bufio.Reader
	most   int // bytes of a line
	number int // of the last line
	buffer []byte
}

func newLogLines(r io.Reader, most int) *logLines {
	return &logLines{r: bufio.NewReaderSize(r, 1<<16), most: most}
}

// next returns a line without its end, until the next call. At the end of the file it gives io.EOF.
func (l *logLines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.buffer = append(l.buffer[:0], line...)
		long := false
		for err == bufio.ErrBufferFull {
			line, err = l.r.ReadSlice('\n')
			if long = long || len(l.buffer)+len(line) > l.most+2; !long { // and the end of the line
				l.buffer = append(l.buffer, line...)
			}
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		if long {
			l.number++
			return nil, errLongLine
		}
		line = l.buffer
	}
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	l.number++
	if end := len(line) - 1; line[end] == '\n' {
		line = line[:end]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > l.most {
		return nil, errLongLine
	}
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff")) // which some programs write before a text
	}
	return line, nil
}
