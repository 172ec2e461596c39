package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Bounds on what is read of a file to find out what it is.
const (
	lookLines = 200
	lookBytes = 4 << 20
)

type logFile struct {
	path    string
	size    int64     // 0 where that is not known
	changed time.Time // last
	f       *os.File
	looked  []byte // what was read of a pipe, which is not read twice

	format LogFormat // "" of an empty file
	first  time.Time // the time of the first line that has one
	year   int       // of that line, where its time has none
}

// OpenLog opens the files of a log, such as rotated ones, in any order, and finds out what they are.
func OpenLog(paths []string, o LogOptions) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	switch {
	case len(paths) == 0:
		return nil, fmt.Errorf("%w: no file", ErrLog)
	case len(paths) > MaxLogFiles:
		return nil, fmt.Errorf("%w: %d files are too many; at most %d", ErrLog, len(paths), MaxLogFiles)
	}
	l := &Log{
		users: map[string]struct{}{}, sorted: newSorter(maxLogHeld), format: o.Format,
		limits: logLimits{line: MaxLogLine, recipients: MaxMailRecipients, users: MaxLogUsers, open: MaxLogOpen,
			held: maxLogHeld},
	}
	for _, path := range paths {
		f := &logFile{path: path}
		l.files = append(l.files, f)
		if err := f.look(o.Format); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.total.Add(f.size)
		switch {
		case f.format == "":
		case l.format == "":
			l.format = f.format
		case l.format != f.format:
			return nil, errors.Join(fmt.Errorf("%w: %s is %s, and others are %s: read them apart", ErrLog, path,
				f.format, l.format), l.Close())
		}
	}
	order(l.files, o.Year)
	switch l.format {
	case LogPostfix:
		l.reader = newJoiner(l, o)
	case LogJSON:
		l.reader = &jsonReader{log: l}
	default:
		l.reader = &csvReader{log: l}
	}
	return l, nil
}

// open makes the lines of the file ready. The bytes that are read are added up in done.
func (f *logFile) open(done *atomic.Int64, most int) (*logLines, error) {
	if f.f == nil {
		file, err := os.Open(f.path)
		if err != nil {
			return nil, err
		}
		f.f = file
	}
	lines, err := unpacked(readBytes{io.MultiReader(bytes.NewReader(f.looked), f.f), done}, most)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.path, err), f.close())
	}
	return lines, nil
}

func (f *logFile) close() error {
	if f.f == nil {
		return nil
	}
	file := f.f
	f.f = nil
	return file.Close()
}

// readBytes counts what is read.
type readBytes struct {
	r    io.Reader
	done *atomic.Int64
}

func (c readBytes) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done.Add(int64(n))
	return n, err
}

// unpacked returns the lines of a file that may be compressed.
func unpacked(r io.Reader, most int) (*logLines, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := b.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return newLogLines(b, most), nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	return newLogLines(z, most), nil
}

// look finds out what the file is and when it begins.
func (f *logFile) look(forced LogFormat) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%w: %s is a folder; name its files", ErrLog, f.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.changed = info.ModTime()
	var head bytes.Buffer
	lines, err := unpacked(io.TeeReader(file, &head), MaxLogLine)
	if err == nil {
		err = f.find(lines, forced)
	}
	if info.Mode().IsRegular() {
		f.size = info.Size()
		err = errors.Join(err, file.Close())
	} else {
		f.f, f.looked = file, head.Bytes()
	}
	if err != nil && !errors.Is(err, ErrLog) {
		err = fmt.Errorf("%s: %w", f.path, err)
	}
	return err
}

// find reads lines until one tells the format, and one the time.
func (f *logFile) find(lines *logLines, forced LogFormat) error {
	var first []byte
	var read csvReader
	for size := 0; size < lookBytes && lines.number < lookLines; {
		line, err := lines.next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, errLongLine) {
			line = lines.buffer[:min(len(lines.buffer), 120)]
		} else if err != nil {
			return err
		}
		size += len(line)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if first == nil {
			first = bytes.Clone(line[:min(len(line), 120)])
		}
		if f.format == "" {
			if f.format = formatOf(line); forced != "" {
				f.format = forced
			}
			if f.format == LogCSV {
				if !read.header(line) {
					return f.unknown(first)
				}
				continue
			}
		}
		if at, ok := f.begins(line, &read); ok {
			f.first = at
			return nil
		}
	}
	if f.format == "" && first != nil {
		return f.unknown(first)
	}
	return nil
}

func (f *logFile) unknown(first []byte) error {
	return fmt.Errorf("%w: %s begins with %q; %s", ErrLog, f.path, first, understood)
}

// formatOf tells the format by one line, if it can.
func formatOf(line []byte) LogFormat {
	var c clock
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")):
		return LogJSON
	case new(csvReader).header(line):
		return LogCSV
	}
	if _, rest, ok := c.read(line); ok && bytes.Contains(rest, []byte(": ")) {
		return LogPostfix
	}
	return ""
}

// begins returns the time of a line, if it has one.
func (f *logFile) begins(line []byte, read *csvReader) (at time.Time, ok bool) {
	switch f.format {
	case LogCSV:
		if fields, r := read.fields(line); r == used {
			at, _, ok = timeOf(bytes.TrimSpace(fields[0]))
		}
	case LogJSON:
		var mail jsonMail
		if mail.read(line) {
			at, _, ok = timeOf(mail.time())
		}
	case LogPostfix:
		c := clock{year: leapYear}
		if at, _, ok = c.read(line); ok && !c.last.IsZero() {
			f.year = latestYear(at, f.changed)
			at = at.AddDate(f.year-leapYear, 0, 0)
		}
	}
	return at, ok
}

const leapYear = 2000

// latestYear returns the last year in which a time of the leap year may have been written to a file with this last
// change; a day more is for zones.
func latestYear(at, changed time.Time) int {
	for year := changed.Year() + 1; year > changed.Year()-8; year-- {
		if in := at.AddDate(year-leapYear, 0, 0); in.Day() == at.Day() && !in.After(changed.Add(24*time.Hour)) {
			return year
		}
	}
	return changed.Year()
}

// order sorts the files by their first times. Where the year is given in which the log begins, the first file is the
// one after the longest part of the year without any.
func order(files []*logFile, year int) {
	byTime := func(a, b *logFile) int { return a.first.Compare(b.first) }
	if year == 0 {
		slices.SortStableFunc(files, byTime)
		return
	}
	var all []*logFile
	for _, f := range files {
		if f.year != 0 {
			f.first = f.first.AddDate(leapYear-f.year, 0, 0)
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, byTime)
	begin, longest := 0, time.Duration(-1)
	for i, f := range all {
		before := all[(i+len(all)-1)%len(all)].first
		if i == 0 {
			before = before.AddDate(-1, 0, 0)
		}
		if gap := f.first.Sub(before); gap > longest {
			begin, longest = i, gap
		}
	}
	for i, f := range all {
		f.year = year
		if i < begin {
			f.year++
		}
		f.first = f.first.AddDate(f.year-leapYear, 0, 0)
	}
	slices.SortStableFunc(files, byTime)
}

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
