import MarkdownIt from "markdown-it";
import { Fragment, useMemo, type ReactNode } from "react";
import { marked, plain } from "../../ui/text.js";

type Token = ReturnType<InstanceType<typeof MarkdownIt>["parse"]>[number];

/** What is drawn of a text: its beginning, so that a hostile one does not stop the page. */
const maxLength = 256 << 10;
const maxTokens = 20_000;
const maxDepth = 40;

// It only takes the text apart; markup in it stays text.
const parser = new MarkdownIt({ html: false, maxNesting: maxDepth });

const looks: Record<string, string> = {
  h1: "text-lg font-semibold", h2: "text-base font-semibold", h3: "font-semibold", h4: "font-medium", h5: "font-medium", h6: "font-medium text-muted",
  p: "whitespace-pre-line", ul: "list-disc pl-6", ol: "list-decimal pl-6", li: "", blockquote: "flex flex-col gap-2 border-l-2 border-line pl-3 text-muted",
  thead: "", tbody: "", tr: "", th: "border border-line px-2 py-1 text-left font-medium", td: "border border-line px-2 py-1",
  em: "italic", strong: "font-semibold", s: "line-through",
};

/** address is where a link may lead: to a page or a mailbox that it names in full. */
function address(href: string): string | undefined {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  return url && ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
}

function element(token: Token, children: ReactNode[], key: number): ReactNode {
  if (token.tag === "a") {
    const to = address(String(token.attrGet("href") ?? ""));
    if (!to) return <Fragment key={key}>{children}</Fragment>;
    return (
      <a key={key} href={to} title={to} target="_blank" rel="noopener noreferrer" className="text-accent underline">
        {children}
      </a>
    );
  }
  if (token.tag === "table") {
    return (
      <div key={key} tabIndex={0} role="region" aria-label="Table" data-wide className="overflow-x-auto">
        <table className="border-collapse">{children}</table>
      </div>
    );
  }
  const Tag = token.tag as "p";
  return Object.hasOwn(looks, token.tag) ? (
    <Tag key={key} className={looks[token.tag]}>
      {children}
    </Tag>
  ) : (
    <Fragment key={key}>{children}</Fragment>
  );
}

function leaf(token: Token, key: number): ReactNode {
  switch (token.type) {
    case "inline":
      return <Fragment key={key}>{tree(token.children ?? [])}</Fragment>;
    case "code_inline":
      return (
        <code key={key} className="rounded bg-sunk px-1 font-mono text-xs">
          {plain(token.content)}
        </code>
      );
    case "fence":
    case "code_block":
      return <Code key={key} text={token.content} />;
    case "hr":
      return <hr key={key} className="border-line" />;
    case "hardbreak":
      return <br key={key} />;
    case "softbreak":
      return " ";
    case "image":
      return (
        <span key={key} className="rounded border border-line px-1 text-muted">
          Picture: {plain(token.content || "no description")} ({plain(String(token.attrGet("src") ?? ""))})
        </span>
      );
    default:
      return plain(token.content);
  }
}

/** tree makes elements of the flat list of what begins, ends and stands between. */
function tree(tokens: Token[]): ReactNode[] {
  const stack: { token?: Token; children: ReactNode[] }[] = [{ children: [] }];
  const close = (key: number) => {
    const { token, children } = stack.pop()!;
    stack.at(-1)!.children.push(element(token!, children, key));
  };
  tokens.forEach((token, key) => {
    if (token.hidden) return; // the paragraphs of a list without space between its items
    if (token.nesting === 0) stack.at(-1)!.children.push(leaf(token, key));
    else if (token.level >= maxDepth) return; // emphasis in emphasis has no bound of the parser's
    else if (token.nesting > 0) stack.push({ token, children: [] });
    else if (stack.length > 1) close(key);
  });
  while (stack.length > 1) close(tokens.length + stack.length);
  return stack[0]!.children;
}

/** begin is the first of the tokens, also of those within lines, and whether it leaves any out. */
function begin(tokens: Token[]): { kept: Token[]; cut: boolean } {
  let count = 0;
  let cut = false;
  const kept = tokens.filter((token) => {
    count += 1 + (token.children?.length ?? 0);
    cut ||= token.level >= maxDepth - 1 || (token.children?.some(({ level }) => level >= maxDepth) ?? false);
    return count <= maxTokens;
  });
  return { kept, cut: cut || count > maxTokens };
}

function Code({ text }: { text: string }) {
  return (
    <pre tabIndex={0} aria-label="Code" className="overflow-x-auto rounded bg-sunk p-2 font-mono text-xs">
      {marked(text)}
    </pre>
  );
}

/** A text with headings, lists, links and so on. What looks like markup stays text, and nothing is loaded. */
export function Markdown({ text }: { text: string }) {
  const { body, cut } = useMemo(() => {
    const { kept, cut } = begin(parser.parse(text.slice(0, maxLength), {}));
    return { body: tree(kept), cut: cut || text.length > maxLength };
  }, [text]);
  return (
    <div className="flex flex-col gap-3 break-words">
      {body}
      {cut && <p className="text-warn">The text is too long or too deeply nested to be drawn whole. The source has all of it.</p>}
    </div>
  );
}

export default Markdown;
