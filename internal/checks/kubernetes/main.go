// Command kubernetes checks manifests with the code of Kubernetes itself: it builds a kustomization as kubectl does, and
// decodes every object of it, and of further files, into the types of k8s.io/api. A field that they do not have is an
// error, as is one that stands there twice. It is a module of its own: what Kubernetes needs is no business of weir's.
//
//	go run -C internal/checks/kubernetes . FOLDER [FILE…]
//
// It prints the kind and the name of each object.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes FOLDER [FILE…]")
		os.Exit(2)
	}
	if err := check(os.Stdout, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check builds the kustomization in a folder and decodes what comes out, and the files. It reports every mistake.
func check(out io.Writer, folder string, files []string) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	text, err := built.AsYaml()
	if err != nil {
		return err
	}
	d, err := newDecoder()
	if err != nil {
		return err
	}
	wrong := d.all(out, "kustomization", text)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			err = d.all(out, name, text)
		}
		wrong = errors.Join(wrong, err)
	}
	return wrong
}

// A decoder knows the kinds that weir's manifests use.
type decoder struct{ runtime.Decoder }

func newDecoder() (decoder, error) {
	known := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(known), appsv1.AddToScheme(known), policyv1.AddToScheme(known))
	return decoder{serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()}, err
}

// all decodes every document of a text. There must be one.
func (d decoder) all(out io.Writer, from string, text []byte) (wrong error) {
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	found := 0
	for buffer := make([]byte, len(text)+1); ; {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(wrong, err)
		}
		if len(bytes.TrimSpace(buffer[:n])) == 0 {
			continue
		}
		found++
		object, kind, err := d.Decode(buffer[:n], nil, nil)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", from, err))
			continue
		}
		named, err := meta.Accessor(object)
		if err != nil {
			return errors.Join(wrong, err)
		}
		fmt.Fprintln(out, kind.Kind, named.GetName())
	}
	if found == 0 {
		wrong = errors.Join(wrong, fmt.Errorf("%s: there is no object", from))
	}
	return wrong
}
