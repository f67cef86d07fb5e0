package lease

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestVXLANDataGolden(t *testing.T) {
	d := VXLANData{VNI: 1, VtepMAC: MAC{0xfa, 0xb7, 0xdd, 0x78, 0x7f, 0xf6}}
	const want = `{"VNI":1,"VtepMAC":"fa:b7:dd:78:7f:f6"}`
	if got := string(d.Encode()); got != want {
		t.Errorf("Encode() = %s, want %s", got, want)
	}
	if got, err := json.Marshal(d); err != nil || string(got) != want {
		t.Errorf("json.Marshal = %s, %v, want %s", got, err, want)
	}
	if got, err := ParseVXLANData(json.RawMessage(want)); err != nil || got != d {
		t.Errorf("ParseVXLANData = %+v, %v", got, err)
	}
}

func TestParseVXLANData(t *testing.T) {
	for _, c := range []struct{ name, raw, says string }{
		{"old flannel without VNI", `{"VtepMAC":"02:00:00:00:00:01"}`, ""},
		{"upper case", `{"vni":16777215,"vtepmac":"02:00:00:00:00:AB"}`, ""},
		{"absent", ``, "missing"},
		{"null", `null`, "VtepMAC"},
		{"empty object", `{}`, "VtepMAC"},
		{"text", `"02:00:00:00:00:01"`, "VNI"},
		{"VNI too big", `{"VNI":16777216,"VtepMAC":"02:00:00:00:00:01"}`, "VNI"},
		{"VNI negative", `{"VNI":-1,"VtepMAC":"02:00:00:00:00:01"}`, "VNI"},
		{"bad MAC", `{"VNI":1,"VtepMAC":"02:00:00:00:00"}`, "MAC"},
		{"long MAC", `{"VNI":1,"VtepMAC":"02:00:00:00:00:00:00:01"}`, "6 bytes"},
		{"zero MAC", `{"VNI":1,"VtepMAC":"00:00:00:00:00:00"}`, "VtepMAC"},
		{"broadcast MAC", `{"VNI":1,"VtepMAC":"ff:ff:ff:ff:ff:ff"}`, "VtepMAC"},
		{"group MAC", `{"VNI":1,"VtepMAC":"01:00:5e:00:00:01"}`, "VtepMAC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := ParseVXLANData(json.RawMessage(c.raw))
			switch {
			case c.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.says != "" && err == nil:
				t.Errorf("took %+v", d)
			case c.says != "" && !strings.Contains(err.Error(), c.says):
				t.Errorf("message %q does not say %q", err, c.says)
			}
		})
	}
}
