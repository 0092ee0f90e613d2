// A menu to pick from, with a field that narrows it when it is long.
import type { ReactNode } from "react";
import { Autocomplete, useFilter } from "react-aria-components/Autocomplete";
import { Button } from "react-aria-components/Button";
import { Menu, MenuItem, MenuTrigger, Popover } from "react-aria-components/Menu";
import { Input, SearchField } from "react-aria-components/SearchField";
import { Icon } from "./icons";

/** A menu with more entries than this has a field that narrows it. */
const LONG = 8;

export interface Choice {
  id: string;
  text: string;
  /** A page to go to; without it the choice is reported. */
  href?: string;
  note?: ReactNode;
  mono?: boolean;
}

interface PickProps {
  /** What a screen reader says of the button. */
  label: string;
  className: string;
  children: ReactNode;
  choices: readonly Choice[];
  selected?: string | null;
  onPick?(id: string): void;
  onOpen?(): void;
  /** What the menu says while it has no entry. */
  emptyText?: string;
}

export function Pick({ label, className, children, choices, selected, onPick, onOpen, emptyText = "Nothing here" }: PickProps) {
  return (
    <MenuTrigger onOpenChange={(isOpen) => isOpen && onOpen?.()}>
      <Button className={className} aria-label={label}>
        {children}
      </Button>
      <Popover className="popover" placement="bottom start" offset={4}>
        <Narrowed long={choices.length > LONG} label={label}>
          <Menu
            className="menu"
            aria-label={label}
            items={choices}
            selectionMode={selected === undefined ? "none" : "single"}
            selectedKeys={selected ? [selected] : []}
            onAction={(id) => onPick?.(String(id))}
            renderEmptyState={() => <div className="menu-empty">{emptyText}</div>}
          >
            {(choice) => (
              <MenuItem
                id={choice.id}
                textValue={choice.text}
                className="menu-item"
                {...(choice.href === undefined ? {} : { href: choice.href })}
              >
                <span className="menu-check">{selected === choice.id && <Icon name="check" />}</span>
                <span className={choice.mono ? "menu-text mono" : "menu-text"}>{choice.text}</span>
                {choice.note !== undefined && <span className="menu-note">{choice.note}</span>}
              </MenuItem>
            )}
          </Menu>
        </Narrowed>
      </Popover>
    </MenuTrigger>
  );
}

function Narrowed({ long, label, children }: { long: boolean; label: string; children: ReactNode }) {
  const { contains } = useFilter({ sensitivity: "base" });
  if (!long) return children;
  return (
    <Autocomplete filter={contains}>
      <SearchField className="menu-search" aria-label={`${label}: filter`} autoFocus>
        <Icon name="search" />
        <Input placeholder="Filter" />
      </SearchField>
      {children}
    </Autocomplete>
  );
}
