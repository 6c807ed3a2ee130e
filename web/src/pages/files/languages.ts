import { Language, StreamLanguage, type LanguageSupport } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { NodeType, Parser, Tree, type Input, type PartialParse, type TreeFragment } from "@lezer/common";
import { ending } from "./kind.js";

type Load = () => Promise<Extension>;

/** A hostile text can nest so deeply that a parser runs out of its stack, in the middle of a key press. It then has no colours. */
class Guarded extends Parser {
  constructor(readonly inner: Parser) {
    super();
  }

  createParse(input: Input, fragments: readonly TreeFragment[], ranges: readonly { from: number; to: number }[]): PartialParse {
    const parse = this.inner.createParse(input, fragments, ranges);
    let failed = false;
    return {
      advance: () => {
        try {
          return parse.advance();
        } catch {
          failed = true;
          return new Tree(NodeType.none, [], [], input.length);
        }
      },
      stopAt: (pos) => parse.stopAt(pos),
      get parsedPos() {
        return failed ? input.length : parse.parsedPos;
      },
      get stoppedAt() {
        return failed ? null : parse.stoppedAt;
      },
    };
  }
}

const guarded = ({ language, support }: LanguageSupport): Extension => [new Language(language.data, new Guarded(language.parser), [], language.name), support];

const script = (options: { jsx?: boolean; typescript?: boolean }): Load => async () => guarded((await import("@codemirror/lang-javascript")).javascript(options));
const python: Load = async () => guarded((await import("@codemirror/lang-python")).python());
const json: Load = async () => guarded((await import("@codemirror/lang-json")).json());
const yaml: Load = async () => guarded((await import("@codemirror/lang-yaml")).yaml());
const html: Load = async () => guarded((await import("@codemirror/lang-html")).html());
const css: Load = async () => guarded((await import("@codemirror/lang-css")).css());
const rust: Load = async () => guarded((await import("@codemirror/lang-rust")).rust());
const sql: Load = async () => guarded((await import("@codemirror/lang-sql")).sql());
const go: Load = async () => guarded((await import("@codemirror/lang-go")).go());
const markdown: Load = async () => guarded((await import("@codemirror/lang-markdown")).markdown());

// Modes of the editor before this one: they read line by line and nest nothing.
const shell: Load = async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/shell")).shell);
const toml: Load = async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/toml")).toml);
const docker: Load = async () => StreamLanguage.define((await import("@codemirror/legacy-modes/mode/dockerfile")).dockerFile);

const byEnding: Record<string, Load> = {
  js: script({ jsx: true }), mjs: script({}), cjs: script({}), jsx: script({ jsx: true }),
  ts: script({ typescript: true }), mts: script({ typescript: true }), tsx: script({ jsx: true, typescript: true }),
  py: python, pyi: python, go, json, ipynb: json, jsonl: json, yaml, yml: yaml, html, htm: html, svg: html, xml: html, css,
  md: markdown, markdown, sh: shell, bash: shell, zsh: shell, rs: rust, sql, toml, dockerfile: docker, containerfile: docker,
};

/** language gives the colours for a name; a name without a known ending has none. */
export const language = async (name: string): Promise<Extension> => (Object.hasOwn(byEnding, ending(name)) ? byEnding[ending(name)]!() : []);
