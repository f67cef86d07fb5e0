package demo

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
)

// parseLogLine reads one line of slog's text handler: key=value pairs, values
// quoted where they must be. What is not of that form it leaves out.
func parseLogLine(line string) map[string]string {
	fields := map[string]string{}
	for line != "" {
		key, rest, ok := strings.Cut(line, "=")
		if !ok {
			break
		}
		key = key[strings.LastIndexByte(key, ' ')+1:]
		value, _, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		} else {
			rest = rest[len(value):]
		}
		fields[key] = value
		line = strings.TrimPrefix(rest, " ")
	}
	return fields
}

// wayMessage is the message under which a daemon logs how it got on the wire,
// with the fields asked, granted and why.
const wayMessage = "way on the wire"

// granted returns what the daemons' logs say they got on the wire by. Where the
// daemons differ, all answers are named.
func granted(logs ...[]string) (way, why string) {
	var ways, whys []string
	for _, log := range logs {
		for _, line := range slices.Backward(log) {
			if f := parseLogLine(line); f["msg"] == wayMessage {
				ways, whys = append(ways, f["granted"]), append(whys, f["why"])
				break
			}
		}
	}
	return each(ways), each(whys)
}

// each joins what is not said twice.
func each(words []string) string {
	slices.Sort(words)
	words = slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
	return strings.Join(words, " / ")
}

// readLines returns the lines of a file; none if there is no such file.
func readLines(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	b = bytes.TrimRight(b, "\n")
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\n")
}

// tailLines is how much of a log is shown when its daemon failed.
const tailLines = 15

func tail(lines []string) []string { return lines[max(0, len(lines)-tailLines):] }
