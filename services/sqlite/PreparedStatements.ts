/** The statements that a connection keeps prepared, by their SQL. Count and heap are bounded. */
import type { Statement } from "./Statement.ts";

/** The heap is limited too, since a wide statement takes 10 KB. */
const STATEMENTS_MAX = 64;
const STATEMENT_BYTES_MAX = 96 * 1024;

export class PreparedStatements {
  private readonly kept = new Map<string, Statement>();
  private bytes = 0;
  private uses = 0;

  get(sql: string): Statement | undefined {
    const statement = this.kept.get(sql);
    if (statement !== undefined) statement.used = ++this.uses;
    return statement;
  }

  keep(sql: string, statement: Statement): void {
    statement.used = ++this.uses;
    this.kept.set(sql, statement);
    this.bytes += statement.bytes;
    if (this.kept.size > STATEMENTS_MAX) this.evict();
  }

  /** Call it when no statement runs. */
  trim(): void {
    if (this.bytes > STATEMENT_BYTES_MAX) this.evict();
  }

  finalize(): void {
    for (const statement of this.kept.values()) statement.finalize();
    this.kept.clear();
  }

  /** Finalizes the least recently used statements, and always keeps one. */
  private evict(): void {
    const leastRecent = [...this.kept].toSorted(([, a], [, b]) => a.used - b.used);
    for (const [sql, statement] of leastRecent) {
      const fits = this.kept.size <= STATEMENTS_MAX && this.bytes <= STATEMENT_BYTES_MAX;
      if (fits || this.kept.size === 1) return;
      this.kept.delete(sql);
      this.bytes -= statement.bytes;
      statement.finalize();
    }
  }
}
